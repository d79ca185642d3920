package issue

import (
	"context"
	"errors"
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/issuance"
)

// maintain rewrites a Secret that is not what the Certificate requests, if its
// certificate is.
func (t *pass) maintain(ctx context.Context) (ends bool, err error) {
	passwords, err := t.passwords(ctx)
	if missing := (noPassword{}); err != nil && !errors.As(err, &missing) {
		return false, err
	}
	content, drift, err := issuance.Maintain(t.Situation, t.Settings.EnableCertificateOwnerRef, passwords, t.now)
	if err != nil {
		t.requeueBy(t.now.Add(lookEvery))
		t.reportBlocked(issuing, issuance.Finding{Reason: reasonNotWritten, Message: fmt.Sprintf(
			"Cannot compare Secret %q: %v: fix the Secret, or have it replaced with %q", t.Certificate.Spec.SecretName, err, "certplane renew")})
		return false, nil
	}
	if drift == "" {
		return false, nil
	}
	log.FromContext(ctx).V(1).Info("Writing the Secret again", "why", drift)
	if err := t.flush(ctx); err != nil {
		return false, err
	}
	t.unsettled = true
	_, err = t.apply(ctx, content)
	return true, err
}

// deleteSurplus deletes the requests of earlier certificates.
func (t *pass) deleteSurplus(ctx context.Context) (ends bool, err error) {
	for _, cr := range issuance.Surplus(t.Certificate, t.Requests) {
		t.deletes(cr)
		if err := t.deleteRequest(ctx, revisionManager, cr, "spec.revisionHistoryLimit"); err != nil {
			return false, err
		}
	}
	return false, nil
}

func isIssuing(crt *cmv1.Certificate) bool {
	return certmanager.CertificateIs(crt, cmv1.CertificateConditionIssuing)
}
