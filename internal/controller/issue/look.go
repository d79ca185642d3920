package issue

import (
	"context"
	"fmt"
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/issuance"
)

// relatives are the cached objects that belong to a Certificate. They must not be modified.
type relatives struct {
	// requests are the requests that name the Certificate or are owned by it.
	requests []*cmv1.CertificateRequest
	// keys are the names of Secrets with keys for its next certificate.
	keys []string
	// versions are the resource versions of all of these, and of the Certificate.
	versions []string
}

// relatives reads the caches.
func (r *reconciler) relatives(ctx context.Context, crt *cmv1.Certificate) (relatives, error) {
	of := []client.ListOption{client.InNamespace(crt.Namespace), client.MatchingFields{byCertificate: crt.Name}, client.UnsafeDisableDeepCopy}
	list := &cmv1.CertificateRequestList{}
	if err := r.objects.List(ctx, list, of...); err != nil {
		return relatives{}, fmt.Errorf("listing the requests of Certificate %s/%s: %w", crt.Namespace, crt.Name, err)
	}
	keys := &metav1.PartialObjectMetadataList{}
	keys.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := r.keys.List(ctx, keys, of...); err != nil {
		return relatives{}, fmt.Errorf("listing the keys of Certificate %s/%s: %w", crt.Namespace, crt.Name, err)
	}
	found := relatives{requests: pointers(list.Items), versions: []string{crt.ResourceVersion}}
	for _, cr := range found.requests {
		found.versions = append(found.versions, cr.ResourceVersion)
	}
	for _, key := range keys.Items {
		found.keys, found.versions = append(found.keys, key.Name), append(found.versions, key.ResourceVersion)
	}
	return found, nil
}

// look collects the objects that belong to a Certificate. Secrets are read from
// the API, the others are from the caches.
func (r *reconciler) look(ctx context.Context, crt *cmv1.Certificate, cached relatives) (*pass, error) {
	target, err := r.secret(ctx, crt.Namespace, crt.Spec.SecretName)
	if err != nil {
		return nil, err
	}
	t := &pass{reconciler: r, now: r.Clock.Now(), stored: crt, requests: cached.requests, Situation: issuance.Situation{
		Certificate: crt, Secret: target, Owner: issuance.Owner(r.withSecretName(ctx, crt.Namespace, crt.Spec.SecretName), target),
		IgnoresSuggestions: !r.asksCAs(), Revoked: r.revoked.Load(),
	}}
	t.Requests = issuance.Own(crt, t.requests)
	t.nextKeys, err = r.findNextKeys(ctx, t.Situation, cached.keys)
	return t, err
}

// secret returns the current version of a Secret, or nil if it does not exist.
func (r *reconciler) secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	found := &corev1.Secret{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s/%s: %w", namespace, name, err)
	}
	return found, nil
}

// readAnswers completes the requests whose answer the Certificate waits for:
// the cache holds no certificates.
func (t *pass) readAnswers(ctx context.Context) error {
	for i, cr := range t.Requests {
		revision, ok := issuance.Revision(cr)
		if !ok || revision != issuance.NextRevision(t.Certificate) || certmanager.ReadyReason(cr) != cmv1.CertificateRequestReasonIssued || len(cr.Status.Certificate) > 0 {
			continue
		}
		whole := &cmv1.CertificateRequest{}
		if err := t.Client.Get(ctx, client.ObjectKeyFromObject(cr), whole); err != nil {
			return fmt.Errorf("reading CertificateRequest %s/%s: %w", cr.Namespace, cr.Name, err)
		}
		t.Requests[i] = whole
	}
	return nil
}

// findNextKeys returns the Secrets with keys for the next certificate: those with
// names from the cache, and those that the status and the request name, since the
// cache can be late.
func (r *reconciler) findNextKeys(ctx context.Context, s issuance.Situation, cached []string) ([]*corev1.Secret, error) {
	names := issuance.NextKeyNames(s)
	for _, name := range cached {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	var found []*corev1.Secret
	for _, name := range names {
		secret, err := r.secret(ctx, s.Certificate.Namespace, name)
		if err != nil {
			return nil, err
		}
		if secret != nil && secret.DeletionTimestamp.IsZero() && metav1.IsControlledBy(secret, s.Certificate) {
			found = append(found, secret)
		}
	}
	return found, nil
}
