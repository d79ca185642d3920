package issue

import (
	"context"
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/issuance"
)

// look collects the objects that belong to a Certificate. Secrets are read from
// the API, the others from the caches.
func (r *reconciler) look(ctx context.Context, crt *cmv1.Certificate) (*pass, error) {
	target, err := r.secret(ctx, crt.Namespace, crt.Spec.SecretName)
	if err != nil {
		return nil, err
	}
	list := &cmv1.CertificateRequestList{}
	err = r.objects.List(ctx, list, client.InNamespace(crt.Namespace), client.MatchingFields{byCertificate: crt.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the requests of Certificate %s/%s: %w", crt.Namespace, crt.Name, err)
	}
	t := &pass{reconciler: r, now: r.Clock.Now(), requests: pointers(list.Items), Situation: issuance.Situation{
		Certificate: crt, Secret: target, Owner: issuance.Owner(r.withSecretName(ctx, crt.Namespace, crt.Spec.SecretName), target),
		IgnoresSuggestions: !r.asksCAs(),
	}}
	t.Requests = issuance.Own(crt, t.requests)
	t.nextKeys, err = r.findNextKeys(ctx, crt)
	return t, err
}

// secret returns a Secret as it is now, or nil.
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
	if !isIssuing(t.Certificate) {
		return nil
	}
	for i, cr := range t.Requests {
		revision, ok := issuance.Revision(cr)
		if !ok || revision != issuance.NextRevision(t.Certificate) || certmanager.ReadyReason(cr) != cmv1.CertificateRequestReasonIssued {
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

// findNextKeys returns the Secrets with keys for the next certificate.
func (r *reconciler) findNextKeys(ctx context.Context, crt *cmv1.Certificate) ([]*corev1.Secret, error) {
	names, err := r.nextKeyNames(ctx, crt)
	if err != nil {
		return nil, err
	}
	var found []*corev1.Secret
	for _, name := range names {
		secret, err := r.secret(ctx, crt.Namespace, name)
		if err != nil {
			return nil, err
		}
		if secret != nil && secret.DeletionTimestamp.IsZero() && metav1.IsControlledBy(secret, crt) {
			found = append(found, secret)
		}
	}
	return found, nil
}

// nextKeyNames returns the names in the cache and the name in the status: the
// cache can be late.
func (r *reconciler) nextKeyNames(ctx context.Context, crt *cmv1.Certificate) ([]string, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err := r.keys.List(ctx, list, client.InNamespace(crt.Namespace), client.MatchingFields{byCertificate: crt.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the keys of Certificate %s/%s: %w", crt.Namespace, crt.Name, err)
	}
	var names []string
	named := crt.Status.NextPrivateKeySecretName
	for i := range list.Items {
		if name := list.Items[i].Name; named == nil || name != *named {
			names = append(names, name)
		}
	}
	if named != nil {
		names = append(names, *named)
	}
	return names, nil
}
