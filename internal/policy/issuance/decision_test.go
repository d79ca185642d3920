package issuance_test

import (
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/issuance"
)

func TestSetDecision(t *testing.T) {
	const approved, denied = cmv1.CertificateRequestConditionApproved, cmv1.CertificateRequestConditionDenied
	for _, first := range []cmv1.CertificateRequestConditionType{approved, denied} {
		for _, second := range []cmv1.CertificateRequestConditionType{approved, denied} {
			cr := new(cmv1.CertificateRequest)
			if err := issuance.SetDecision(cr, first, issuance.Finding{Reason: "Me"}, now); err != nil || !certmanager.RequestIs(cr, first) {
				t.Fatalf("%s: %v", first, err)
			}
			before := cr.DeepCopy()
			err := issuance.SetDecision(cr, second, issuance.Finding{Reason: "Other"}, now.Add(hour))
			if err == nil || !strings.Contains(err.Error(), `is `+string(first)+` already, with reason "Me"`) {
				t.Errorf("%s after %s: %v", second, first, err)
			}
			if diff := cmp.Diff(before, cr); diff != "" {
				t.Errorf("%s after %s has changed something:\n%s", second, first, diff)
			}
		}
	}
}
