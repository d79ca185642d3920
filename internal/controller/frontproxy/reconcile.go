package frontproxy

import (
	"context"
	"crypto/x509"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/rotation"
	"github.com/certplane/certplane/internal/process/worker"
)

const (
	// manager owns the fields that are written here.
	manager = client.FieldOwner(caName)
	// lookEvery is the longest time between two checks: a clock can be set.
	lookEvery = time.Hour

	managedByLabel = "app.kubernetes.io/managed-by"
	managedBy      = "certplane"
)

type reconciler struct {
	Config
	published rotation.Sightings
}

// Reconcile publishes the stored CA, takes the next step of its rotation, publishes the
// result and only then uses it.
func (r *reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	return worker.Kept(r.keep(ctx))
}

func (r *reconciler) keep(ctx context.Context) (again time.Duration, err error) {
	now := r.Clock.Now()
	proxy, next, err := r.openCA(ctx, now)
	if err != nil {
		return 0, err
	}
	renewal, err := r.renew(ctx, proxy.Current.Authority, now)
	if err != nil {
		return 0, err
	}
	return min(max(pki.Earlier(next, renewal).Sub(now), time.Second), lookEvery), nil
}

// openCA returns the CA, stored and published as it has to be now, and when it changes
// next. What another process has stored before it was stopped is published first.
func (r *reconciler) openCA(ctx context.Context, now time.Time) (rotation.CA, time.Time, error) {
	secret, stored, err := r.load(ctx)
	if err == nil && stored.Current.Authority != nil {
		err = r.publish(ctx, stored)
	}
	if err != nil {
		return rotation.CA{}, now, err
	}
	after, changed, again, err := ca.Next(stored, &r.published, now, r.signing(ctx, "root of the front proxy's CA"))
	if err != nil {
		return rotation.CA{}, now, fmt.Errorf("the front proxy's CA: %w", err)
	}
	if !changed {
		return after, again, nil
	}
	if err := r.store(ctx, secret, after); err != nil {
		return rotation.CA{}, now, err
	}
	return after, again, r.publish(ctx, after)
}

func (r *reconciler) signing(ctx context.Context, use string) pki.Signing {
	return r.Issuing.For(ctx, pki.Purpose{Signer: caName, Use: use})
}

// load returns the Secret, or nil if it does not exist, and its content. A Secret
// that cannot be read is written again: no other client needs it.
func (r *reconciler) load(ctx context.Context) (*corev1.Secret, rotation.CA, error) {
	secret := &corev1.Secret{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: SecretName}, secret)
	if apierrors.IsNotFound(err) {
		return nil, rotation.CA{}, nil
	}
	if err != nil {
		return nil, rotation.CA{}, fmt.Errorf("reading the front proxy's CA: %w", err)
	}
	stored, err := caKeys.Parse(secret.Data)
	if err != nil {
		log.FromContext(ctx).Error(err, "The Secret with the front proxy's CA is invalid: making a new CA", "secret", client.ObjectKeyFromObject(secret))
		stored = rotation.CA{}
	}
	return secret, stored, nil
}

// store replaces the content of secret, if it has not changed.
func (r *reconciler) store(ctx context.Context, secret *corev1.Secret, after rotation.CA) error {
	write := func() error { return r.Client.Update(ctx, secret, manager) }
	text, verbosity := "Changed the front proxy's CA", 0
	if secret == nil {
		text, verbosity = "Created the front proxy's CA", 1 // each first start does
		secret = &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: SecretName, Labels: map[string]string{managedByLabel: managedBy}},
			Type:       corev1.SecretTypeTLS,
		}
		write = func() error { return r.Client.Create(ctx, secret, manager) }
	}
	secret.Data = map[string][]byte{}
	caKeys.Put(secret.Data, after)
	if err := write(); err != nil {
		return fmt.Errorf("keeping the front proxy's CA: %w", err)
	}
	log.FromContext(ctx).V(verbosity).Info(text, "secret", client.ObjectKeyFromObject(secret),
		"ca", after.Current.Certificate().Subject.CommonName, "notAfter", after.Current.Validity().NotAfter)
	return nil
}

// publish writes the certificates of a CA into the ConfigMap, replacing older ones.
func (r *reconciler) publish(ctx context.Context, proxy rotation.CA) error {
	err := worker.KeepConfigMap(ctx, r.Client, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: ConfigMapName}, Data: content(r.ClientCAs(), proxy.Certificates()),
	}, manager)
	if err != nil {
		return fmt.Errorf("publishing the front proxy's CA for other API servers: %w", err)
	}
	return nil
}

func (r *reconciler) isRevoked(cert *x509.Certificate) bool {
	_, is := r.Revoked.Find(cert)
	return is
}

// renew makes another certificate if that is due, and returns when the next one
// is.
func (r *reconciler) renew(ctx context.Context, authority *pki.Authority, now time.Time) (time.Time, error) {
	if current := r.Use.current.Load(); current != nil && certificate.Lasts(current.Leaf, authority.Certificate(), now) && !r.isRevoked(current.Leaf) {
		return certificate.Renewal(current.Leaf, authority.Certificate()), nil
	}
	chain, key, err := certificate.Issue(r.signing(ctx, "client certificate of the front proxy"), authority, now)
	if err != nil {
		return now, fmt.Errorf("issuing the front proxy's certificate: %w", err)
	}
	r.Use.current.Store(pki.TLSCertificate(chain, key))
	log.FromContext(ctx).V(1).Info("Renewed the front proxy's certificate", "serial", chain[0].SerialNumber.Text(16), "notAfter", chain[0].NotAfter)
	return certificate.Renewal(chain[0], authority.Certificate()), nil
}
