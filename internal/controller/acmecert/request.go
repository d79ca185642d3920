package acmecert

import (
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requestkind"
	"github.com/certplane/certplane/internal/policy/rotation"
	"github.com/certplane/certplane/internal/process/worker"
)

const (
	// soonest and latest are the shortest and the longest pause between two checks while
	// the controller waits. The pause grows with the time.
	soonest, latest = 500 * time.Millisecond, 30 * time.Second
	// afterRefusal is the time between a refused request and the next one, counted from its
	// creation.
	afterRefusal = time.Hour
)

// request reads the answer to the request for the next key, and creates the request if it
// does not exist.
func (r *reconciler) request(ctx context.Context, secret *corev1.Secret, s state) (again time.Duration, err error) {
	made, err := r.ask(ctx, s.next)
	if err != nil {
		return 0, err
	}
	if !r.isFor(made) {
		r.Wait("another name for the request: another client created " + made.GetName())
		s.next = nil
		return lookEvery, r.store(ctx, secret, s)
	}
	what := made.GetObjectKind().GroupVersionKind().Kind + " " + made.GetName()
	standing, ca := acmeorder.StandingOf(made), requestkind.Of(made).CA(made)
	age := r.Clock.Now().Sub(made.GetCreationTimestamp().Time)
	refused := standing.Denied
	if refused == nil {
		refused = standing.Failed
	}
	switch {
	case refused != nil:
		r.Wait(fmt.Sprintf("the %s was refused: %s: %s; a new request is created an hour after it", what, refused.Reason, refused.Message))
		if age < afterRefusal {
			return min(afterRefusal-age, lookEvery), nil
		}
		return lookEvery, r.drop(ctx, secret, s, made)
	case len(standing.Certificate) > 0:
		if err := r.accept(ctx, &s, standing.Certificate, ca); err != nil {
			r.Wait(fmt.Sprintf("the certificate of the %s cannot be used: %v; a new one is requested an hour after it", what, err))
			if age < afterRefusal {
				return min(afterRefusal-age, lookEvery), nil
			}
			return lookEvery, r.drop(ctx, secret, s, made)
		}
		if err := r.store(ctx, secret, s); err != nil {
			return 0, err
		}
		leaf := s.chain[0]
		log.FromContext(ctx).Info("The ACME server uses a new certificate", "request", made.GetName(), "serial", leaf.SerialNumber.Text(16), "notAfter", leaf.NotAfter, "issuer", leaf.Issuer.String())
		return lookEvery, r.remove(ctx, made)
	case standing.Approved == nil:
		r.Wait("the approval of the " + what)
	default:
		r.Wait("the " + r.Source.String() + " to sign the " + what)
	}
	return pauseFor(age), nil
}

// pauseFor returns the pause before the next check, after the controller has waited for
// age.
func pauseFor(age time.Duration) time.Duration { return min(max(age/10, soonest), latest) }

// drop removes the next key and its request.
func (r *reconciler) drop(ctx context.Context, secret *corev1.Secret, s state, made client.Object) error {
	if err := r.remove(ctx, made); err != nil {
		return err
	}
	s.next = nil
	return r.store(ctx, secret, s)
}

// remove deletes an answered CertificateRequest. Another controller deletes
// CertificateSigningRequests.
func (r *reconciler) remove(ctx context.Context, made client.Object) error {
	cr, is := made.(*cmv1.CertificateRequest)
	if !is {
		return nil
	}
	if err := r.Client.Delete(ctx, cr, client.Preconditions{UID: &cr.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the answered CertificateRequest %s: %w", cr.Name, err)
	}
	return nil
}

// ask returns the request for a key, and creates it if it does not exist.
func (r *reconciler) ask(ctx context.Context, key crypto.Signer) (client.Object, error) {
	wanted, err := r.wanted(key)
	if err != nil {
		return nil, err
	}
	kind := wanted.GetObjectKind().GroupVersionKind()
	stored := wanted.DeepCopyObject().(client.Object)
	err = r.Client.Get(ctx, client.ObjectKeyFromObject(wanted), stored)
	if apierrors.IsNotFound(err) {
		stored = wanted
		err = r.Client.Create(ctx, stored, manager)
	}
	if err != nil {
		return nil, fmt.Errorf("requesting a certificate of the %s: %w", r.Source, err)
	}
	stored.GetObjectKind().SetGroupVersionKind(kind)
	return stored, nil
}

// wanted returns the request for a key. Its name does not reveal the key, and is the same
// in all processes.
func (r *reconciler) wanted(key crypto.Signer) (client.Object, error) {
	request, err := pki.NewRequest(rotation.HostSubject("", r.Hosts), key)
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, fmt.Errorf("naming the request: %w", err)
	}
	digest := sha256.Sum256(append(public, r.Source.String()+" "+strings.Join(r.Hosts, " ")...))
	object := metav1.ObjectMeta{
		Name:   name + "-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(digest[:15])),
		Labels: map[string]string{worker.ManagedByLabel: worker.ManagedBy},
	}
	if r.Source.Issuer != nil {
		object.Namespace = r.Secret.Namespace
		return &cmv1.CertificateRequest{
			TypeMeta:   metav1.TypeMeta{APIVersion: cmv1.SchemeGroupVersion.String(), Kind: cmv1.CertificateRequestKind},
			ObjectMeta: object,
			Spec: cmv1.CertificateRequestSpec{
				IssuerRef: *r.Source.Issuer, Request: request, Usages: []cmv1.KeyUsage{cmv1.UsageDigitalSignature, cmv1.UsageServerAuth},
			},
		}, nil
	}
	return &certificatesv1.CertificateSigningRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: certificatesv1.SchemeGroupVersion.String(), Kind: "CertificateSigningRequest"},
		ObjectMeta: object,
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: r.Source.Signer, Request: request, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}, nil
}

// isFor reports whether a request is addressed to the configured signer or issuer: another
// client may have created a request with the same name.
func (r *reconciler) isFor(made client.Object) bool {
	asked, _ := request.From(made)
	if r.Source.Issuer != nil {
		return asked.Issuer != nil && asked.Issuer.Written == *r.Source.Issuer
	}
	return asked.SignerName == r.Source.Signer
}

// accept stores an issued certificate, in PEM, if it is for the next key and contains all
// names. ca is the CA in the status of the request, in PEM; it may be empty.
func (r *reconciler) accept(ctx context.Context, s *state, issued, ca []byte) error {
	certs, err := pki.ParseCertificates(issued)
	if err != nil {
		return err
	}
	chain, err := pki.AcceptChain(certs, pki.Wanted{Key: s.next.Public()}, r.Clock.Now())
	if err != nil {
		return err
	}
	var missing []error
	for _, host := range r.Hosts {
		missing = append(missing, chain.Certificates[0].VerifyHostname(host))
	}
	if err := errors.Join(missing...); err != nil {
		return err
	}
	var known []*x509.Certificate
	if len(ca) > 0 {
		if known, err = pki.ParseCertificates(ca); err != nil {
			return fmt.Errorf("status.ca: %w", err)
		}
	}
	if chain.CA != nil {
		known = append(known, chain.CA)
	}
	roots, err := r.roots(ctx, chain.Certificates, known)
	if err != nil {
		return err
	}
	*s = state{source: r.Source.String(), chain: chain.Certificates, key: s.next, roots: roots, former: s.followedBy(r.Source.String(), roots, r.Clock.Now())}
	r.settled = true
	return nil
}

// roots returns the roots to which a chain leads. known are roots that came with the chain
// or were stored.
func (r *reconciler) roots(ctx context.Context, chain, known []*x509.Certificate) ([]*x509.Certificate, error) {
	if r.Roots != nil {
		return provers(chain, r.Roots(), r.Clock.Now()), nil
	}
	if r.Source.Signer != "" {
		published, err := policies.BundledRoots(ctx, r.Client, r.Source.Signer)
		if err != nil {
			return nil, err
		}
		if len(published) > 0 {
			known = published
		}
	}
	var selfSigned []*x509.Certificate
	for _, cert := range known {
		if cert.CheckSignatureFrom(cert) == nil && !slices.ContainsFunc(selfSigned, cert.Equal) {
			selfSigned = append(selfSigned, cert)
		}
	}
	return provers(chain, selfSigned, r.Clock.Now()), nil
}
