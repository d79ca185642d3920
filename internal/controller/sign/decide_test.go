package sign

import (
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/certplane/certplane/internal/api/certificates"
)

const signerName = certificatesv1.KubeAPIServerClientSignerName

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func with(kind certificatesv1.RequestConditionType, status corev1.ConditionStatus) condition {
	return condition{Type: kind, Status: status}
}

func TestActionable(t *testing.T) {
	approved := with(certificatesv1.CertificateApproved, corev1.ConditionTrue)
	denied := with(certificatesv1.CertificateDenied, corev1.ConditionTrue)
	tests := []struct {
		reason      string
		conditions  []condition
		signerName  string
		certificate string
		want        bool
	}{
		{reason: "approved", conditions: []condition{approved}, want: true},
		{reason: "approved counts by its presence", conditions: []condition{with(certificatesv1.CertificateApproved, "")}, want: true},
		{reason: "other conditions do not matter", conditions: []condition{with("Other", "False"), approved}, want: true},
		{reason: "delayed ones are tried again", conditions: []condition{approved, with(certificates.ConditionDelayed, "True")}, want: true},
		{reason: "undecided"},
		{reason: "denied", conditions: []condition{denied}},
		{reason: "both", conditions: []condition{approved, denied}},
		{reason: "failed", conditions: []condition{approved, with(certificatesv1.CertificateFailed, corev1.ConditionTrue)}},
		{reason: "failed without status", conditions: []condition{approved, with(certificatesv1.CertificateFailed, "")}},
		{reason: "not failed after all", conditions: []condition{approved, with(certificatesv1.CertificateFailed, corev1.ConditionFalse)}, want: true},
		{reason: "issued", conditions: []condition{approved}, certificate: "x"},
		{reason: "another signer's", conditions: []condition{approved}, signerName: "example.com/signer"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			c := &csr{
				Spec:   certificatesv1.CertificateSigningRequestSpec{SignerName: signerName},
				Status: certificatesv1.CertificateSigningRequestStatus{Conditions: tc.conditions, Certificate: []byte(tc.certificate)},
			}
			if tc.signerName != "" {
				c.Spec.SignerName = tc.signerName
			}
			if got := actionable(c, ours); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			assertPredicate(t, c, tc.want)
		})
	}
}

func ours(name string) bool { return name == signerName }

// assertPredicate checks that the queue gets actionable requests, whatever the
// event.
func assertPredicate(t *testing.T, c *csr, want bool) {
	t.Helper()
	p := (&reconciler{selects: ours}).predicate()
	if got := p.Create(event.CreateEvent{Object: c}); got != want {
		t.Errorf("create event passes: %v", got)
	}
	if got := p.Update(event.UpdateEvent{ObjectOld: &csr{}, ObjectNew: c}); got != want {
		t.Errorf("update event passes: %v", got)
	}
	if p.Delete(event.DeleteEvent{Object: c}) {
		t.Error("delete event passes")
	}
}
