package webhookcert

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/rotation"
	"github.com/certplane/certplane/internal/policy/serving"
	"github.com/certplane/certplane/internal/process/worker"
)

const (
	// name is the name of the CA and of the certificate.
	name = "certplane-webhook"
	// manager owns the fields that are written here.
	manager = client.FieldOwner(name)
	// lookEvery is the longest time between two checks: a clock can be set.
	lookEvery = time.Hour
)

type reconciler struct {
	Config
	published rotation.Sightings
}

// Reconcile serves what the Secret holds and writes its CA to the
// configurations. Only then does it take the next step of the certificate's
// life: its CA is trusted by then.
func (r *reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	return worker.Kept(r.keep(ctx))
}

func (r *reconciler) keep(ctx context.Context) (again time.Duration, err error) {
	secret, state, err := r.load(ctx)
	if err != nil {
		return 0, err
	}
	if certificate := state.Certificate(); certificate != nil {
		r.Use(certificate)
	}
	configurations, err := r.configurations(ctx)
	if err != nil {
		return 0, err
	}
	if state.Certificate() != nil {
		if err := r.inject(ctx, configurations, state.Bundle()); err != nil {
			return 0, err
		}
	}
	now := r.Clock.Now()
	server := serving.Server{Name: name, Hosts: r.hosts(ctx, configurations), CALifetime: r.CALifetime}
	after, changed, at, err := server.Next(state, &r.published, now, func(use string) pki.Signing { return r.Issuing.For(ctx, pki.Purpose{Signer: name, Use: use}) })
	if err != nil {
		return 0, err
	}
	if changed {
		// The watch reports the write, which triggers another Reconcile.
		return lookEvery, r.store(ctx, secret, after)
	}
	return min(max(at.Sub(now), time.Second), lookEvery), nil
}

// load returns the Secret, or nil if it does not exist, and its contents. A
// Secret that cannot be read is recreated: no other client needs it.
func (r *reconciler) load(ctx context.Context) (*corev1.Secret, serving.State, error) {
	secret, err := worker.ReadSecret(ctx, r.Client, r.Objects.secret())
	if err != nil {
		return nil, serving.State{}, fmt.Errorf("reading the webhook's certificate: %w", err)
	}
	if secret == nil {
		return nil, serving.State{}, nil
	}
	state, err := serving.Parse(secret.Data)
	if err != nil {
		log.FromContext(ctx).Error(err, "The Secret with the webhook's certificate is invalid: making a new certificate", "secret", client.ObjectKeyFromObject(secret))
	}
	return secret, state, nil
}

// store replaces the contents of secret with a state, if the Secret has not
// changed.
func (r *reconciler) store(ctx context.Context, secret *corev1.Secret, state serving.State) error {
	data, err := state.Data()
	if err != nil {
		return err
	}
	if err := worker.KeepSecret(ctx, r.Client, secret, r.Objects.secret(), corev1.SecretTypeTLS, data, manager); err != nil {
		return fmt.Errorf("keeping the webhook's certificate: %w", err)
	}
	leaf := state.Certificate().Leaf
	log.FromContext(ctx).Info("Changed the webhook's certificate or its CA", "secret", r.Objects.secret(),
		"serial", leaf.SerialNumber.Text(16), "notAfter", leaf.NotAfter, "ca", leaf.Issuer.CommonName)
	return nil
}
