package issue

import (
	"context"
	"crypto"
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/internal/policy/issuance"
)

// request ensures that there is one request for the next certificate.
func (t *pass) request(ctx context.Context) (changed bool, err error) {
	key := t.nextKey()
	if key == nil {
		return false, nil
	}
	plan := issuance.PlanRequest(t.Situation, key.Public())
	for _, stale := range plan.Delete {
		if err := t.deleteRequest(ctx, requestManager, stale.Request, stale.Why); err != nil {
			return false, err
		}
	}
	if len(plan.Delete) > 0 {
		return true, nil // their deletion triggers another pass
	}
	if !plan.Create {
		return false, nil
	}
	return true, t.createRequest(ctx, key)
}

func (t *pass) deleteRequest(ctx context.Context, who actor, cr *cmv1.CertificateRequest, why string) error {
	log.FromContext(ctx).V(1).Info("Deleting CertificateRequest", "request", cr.Name, "by", who, "why", why)
	err := t.Client.Delete(ctx, cr, client.Preconditions{UID: &cr.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting CertificateRequest %s/%s: %w", cr.Namespace, cr.Name, err)
	}
	return nil
}

func (t *pass) createRequest(ctx context.Context, key crypto.Signer) error {
	cr, err := issuance.NewRequest(t.Certificate, key, t.Settings.CopiedAnnotationPrefixes)
	if err != nil {
		return t.fail(ctx, requestManager, issuance.Finding{Reason: issuance.EventRequestFailed, Message: fmt.Sprintf("Cannot make a certificate request: %v", err)})
	}
	if err := t.unchanged(ctx); err != nil {
		return err
	}
	err = t.Client.Create(ctx, cr, client.FieldOwner(requestManager))
	if apierrors.IsAlreadyExists(err) {
		return t.collide(ctx, cr.Name)
	}
	if err != nil {
		return t.refused(ctx, requestManager, issuance.EventRequestFailed, fmt.Errorf("creating CertificateRequest %q: %w", cr.Name, err))
	}
	t.eventNormal(requestManager, t.Certificate, issuance.Finding{
		Reason: issuance.EventRequested, Message: fmt.Sprintf("Created new CertificateRequest resource %q", cr.Name),
	})
	return nil
}

// collide handles a request that already has the name of the next one. If the
// Certificate owns it, the cache does not know it yet.
func (t *pass) collide(ctx context.Context, name string) error {
	cr := &cmv1.CertificateRequest{}
	if err := t.Client.Get(ctx, client.ObjectKey{Namespace: t.Certificate.Namespace, Name: name}, cr); err != nil {
		return err
	}
	if metav1.IsControlledBy(cr, t.Certificate) {
		return errChanged
	}
	t.requeueBy(t.now.Add(lookEvery))
	return t.reportBlocked(ctx, requestManager, issuance.Finding{
		Reason: issuance.EventRequestFailed, Message: fmt.Sprintf("CertificateRequest %q exists and does not belong to this Certificate: delete it", name),
	})
}

// fail ends an issuance without a certificate. The key is deleted in the same
// pass: a user may want another attempt at once.
func (t *pass) fail(ctx context.Context, who actor, why issuance.Finding) error {
	changed, err := t.setStatus(ctx, who, func(crt *cmv1.Certificate) { t.Settings.backoff().SetFailed(crt, why, t.now) })
	if err != nil || !changed {
		return err
	}
	t.eventWarning(who, t.Certificate, why)
	return t.deleteKeys(ctx, issuance.PlanKey(t.Certificate, t.nextKeys, t.Secret).Delete)
}
