package acmecert

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/rotation"
	"github.com/certplane/certplane/internal/policy/serving"
	"github.com/certplane/certplane/internal/process/worker"
)

// Lifetime of the server's own CA, and the time for which its successor is published before
// it issues: hosts learn new roots from people, or from the server while they trust one of
// its roots.
const (
	ownLifetime    = pki.DefaultRootLifetime
	ownPropagation = 30 * 24 * time.Hour
)

type reconciler struct {
	Config
	// settled is true once the certificate came from the configured source. A later
	// certificate from another source was written by a process with another configuration,
	// for example during a rolling restart, and does not cause a new request.
	settled bool
	// published is when clients first got the next CA of the server.
	published rotation.Sightings
	// unknown is when this process first saw a certificate without its roots.
	unknown time.Time
}

// Reconcile serves the certificate in the Secret, and takes the next step of its renewal.
func (r *reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	again, err := r.keep(ctx)
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
		r.Wait(err.Error())
	}
	return worker.Kept(again, err)
}

func (r *reconciler) keep(ctx context.Context) (again time.Duration, err error) {
	secret, s, err := r.load(ctx)
	if err != nil {
		return 0, err
	}
	if len(s.chain) > 0 {
		r.Use(pki.TLSCertificate(s.chain, s.key), s.shown(r.Clock.Now()))
	}
	if r.Source.own() {
		return r.keepOwn(ctx, secret, s)
	}
	r.settled = r.settled || s.source == r.Source.String()
	now := r.Clock.Now()
	if at := s.renewal(r.Hosts); r.settled && now.Before(at) {
		r.Wait("")
		again = min(max(at.Sub(now), time.Second), lookEvery)
		if len(s.roots) > 0 {
			r.unknown = time.Time{}
		} else { // the signer may publish them in a moment
			if r.unknown.IsZero() {
				r.unknown = now
			}
			again = min(again, pauseFor(now.Sub(r.unknown)))
		}
		return again, r.keepRoots(ctx, secret, s)
	}
	if s.next == nil {
		if s.next, err = pki.GenerateKey(pki.ECDSAP256); err != nil {
			return 0, err
		}
		return lookEvery, r.store(ctx, secret, s) // the watch reports the write
	}
	return r.request(ctx, secret, s)
}

// keepRoots stores the roots of the certificate if they changed.
func (r *reconciler) keepRoots(ctx context.Context, secret *corev1.Secret, s state) error {
	if s.source != r.Source.String() {
		return nil
	}
	roots, err := r.roots(ctx, s.chain, s.roots)
	if err != nil || slices.EqualFunc(roots, s.roots, (*x509.Certificate).Equal) {
		return err
	}
	s.roots = roots
	return r.store(ctx, secret, s)
}

// keepOwn maintains a certificate of the server's own CA.
func (r *reconciler) keepOwn(ctx context.Context, secret *corev1.Secret, s state) (again time.Duration, err error) {
	var held serving.State
	if secret != nil && (string(secret.Data[sourceKey]) == r.Source.String() || serving.HasCA(secret.Data)) {
		if held, err = serving.Parse(secret.Data); err != nil {
			// Hosts trust only this CA, so the current certificate stays in use until a
			// person decides.
			r.Wait(fmt.Sprintf("the Secret %s to be restored: %v; delete it to generate a new CA, which each host must then be configured to trust", r.Secret, err))
			log.FromContext(ctx).Error(err, "The CA in the Secret of the ACME server is damaged: restore the Secret", "secret", r.Secret)
			return lookEvery, nil
		}
	} else if secret != nil && r.settled {
		return lookEvery, nil
	}
	r.settled = true
	now := r.Clock.Now()
	of := serving.Server{Name: name, Hosts: r.Hosts, CALifetime: ownLifetime, Propagation: ownPropagation}
	after, changed, at, err := of.Next(held, &r.published, now, func(use string) pki.Signing { return r.Issuing.For(ctx, pki.Purpose{Signer: name, Use: use}) })
	if err != nil {
		return 0, err
	}
	if !changed {
		r.Wait("")
		return min(max(at.Sub(now), time.Second), lookEvery), nil
	}
	data, err := after.Data()
	if err != nil {
		return 0, err
	}
	data[sourceKey] = []byte(r.Source.String())
	s.followedBy(r.Source.String(), after.Roots(), now).put(data)
	return lookEvery, r.write(ctx, secret, data)
}

// load returns the Secret, or nil if it does not exist, and its contents. An invalid Secret
// is replaced, unless it holds the server's own CA.
func (r *reconciler) load(ctx context.Context) (*corev1.Secret, state, error) {
	secret, err := worker.ReadSecret(ctx, r.Client, r.Secret)
	if err != nil {
		return nil, state{}, fmt.Errorf("reading the certificate of the ACME server: %w", err)
	}
	if secret == nil {
		return nil, state{}, nil
	}
	s, err := parse(secret.Data)
	if err != nil && !serving.HasCA(secret.Data) {
		log.FromContext(ctx).Error(err, "The Secret with the certificate of the ACME server is invalid: its content is replaced", "secret", r.Secret)
	}
	return secret, s, nil
}

func (r *reconciler) store(ctx context.Context, secret *corev1.Secret, s state) error {
	data, err := s.data()
	if err != nil {
		return err
	}
	return r.write(ctx, secret, data)
}

// write replaces the contents of the Secret, unless it changed since it was read.
func (r *reconciler) write(ctx context.Context, secret *corev1.Secret, data map[string][]byte) error {
	if err := worker.KeepSecret(ctx, r.Client, secret, r.Secret, corev1.SecretTypeOpaque, data, manager); err != nil {
		return fmt.Errorf("keeping the certificate of the ACME server: %w", err)
	}
	return nil
}
