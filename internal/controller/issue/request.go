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

// request ensures that exactly one request for the next certificate exists.
func (t *pass) request(ctx context.Context) (ends bool, err error) {
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
		t.unsettled = true
		return true, nil // their deletion triggers another pass
	}
	if !plan.Create {
		return false, nil
	}
	return t.createRequest(ctx, key)
}

func (t *pass) deleteRequest(ctx context.Context, who actor, cr *cmv1.CertificateRequest, why string) error {
	log.FromContext(ctx).V(1).Info("Deleting CertificateRequest", "request", cr.Name, "by", who, "why", why)
	err := t.Client.Delete(ctx, cr, client.Preconditions{UID: &cr.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting CertificateRequest %s/%s: %w", cr.Namespace, cr.Name, err)
	}
	return nil
}

// createRequest requests the next certificate. The answer may have it already: the
// next steps then use it.
func (t *pass) createRequest(ctx context.Context, key crypto.Signer) (ends bool, err error) {
	cr, err := issuance.NewRequest(t.Certificate, key, t.Settings.CopiedAnnotationPrefixes)
	if err != nil {
		return true, t.fail(ctx, requestManager, issuance.Finding{Reason: issuance.EventRequestFailed, Message: fmt.Sprintf("Cannot make a certificate request: %v", err)})
	}
	issuance.MarkRepair(t.Situation, cr, t.now)
	issuance.MarkKeyID(t.Situation, cr, key.Public())
	if err := t.unchanged(ctx); err != nil {
		return false, err
	}
	name := cr.Name
	err = t.Client.Create(ctx, cr, client.FieldOwner(requestManager))
	if apierrors.IsAlreadyExists(err) {
		return true, t.collide(ctx, name)
	}
	if err != nil {
		return false, t.refused(requestManager, issuance.EventRequestFailed, fmt.Errorf("creating CertificateRequest %q: %w", name, err))
	}
	t.saw(cr.ResourceVersion)
	t.opens(requestManager, issuance.Finding{
		Reason: issuance.EventRequested, Message: fmt.Sprintf("Created new CertificateRequest resource %q", name),
	})
	t.Requests = append(t.Requests, cr)
	return false, nil
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
	t.reportBlocked(requestManager, issuance.Finding{
		Reason: issuance.EventRequestFailed, Message: fmt.Sprintf("CertificateRequest %q exists and does not belong to this Certificate: delete it", name),
	})
	return nil
}

// fail ends an issuance without a certificate. The key is deleted in the same
// pass: a user may want another attempt at once.
func (t *pass) fail(ctx context.Context, who actor, why issuance.Finding) error {
	t.unsettled = true
	t.setStatus(who, func(crt *cmv1.Certificate) { t.Settings.backoff().SetFailed(crt, why, t.now) })
	t.tellWarning(who, why)
	if err := t.flush(ctx); err != nil {
		return err
	}
	return t.deleteKeys(ctx, issuance.PlanKey(t.Situation, t.nextKeys).Delete)
}
