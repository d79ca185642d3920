package policies_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
)

func quotas(all ...v1alpha1.PolicyQuota) func(*v1alpha1.CertificatePolicySpec) {
	return func(s *v1alpha1.CertificatePolicySpec) { s.Quotas = all }
}

func perHour(name string, certificates int32, by v1alpha1.QuotaBy) v1alpha1.PolicyQuota {
	return v1alpha1.PolicyQuota{Name: name, Certificates: certificates, Per: metav1.Duration{Duration: time.Hour}, By: by}
}

// outcomes waits until requests are decided, and returns the messages of those
// that are denied.
func (f *fixture) outcomes(csrs ...*certificatesv1.CertificateSigningRequest) (approved int, denied []string) {
	f.Helper()
	for _, csr := range csrs {
		apitest.Eventually(f, csr.Name+" is decided", func() bool {
			current, err := f.api.CertificatesV1().CertificateSigningRequests().Get(f.Context(), csr.Name, metav1.GetOptions{})
			if err != nil {
				return false
			}
			for _, c := range current.Status.Conditions {
				switch c.Type {
				case certificatesv1.CertificateApproved:
					approved++
					return true
				case certificatesv1.CertificateDenied:
					denied = append(denied, c.Reason+": "+c.Message)
					return true
				}
			}
			return false
		})
	}
	return approved, denied
}

// A quota holds for the approver, says when it fits again, and outlives the
// server.
func TestQuotaOfApprover(t *testing.T) {
	f := start(t)
	f.policy("web", quotas(perHour("hourly", 3, v1alpha1.QuotaByPolicy)))
	var all []*certificatesv1.CertificateSigningRequest
	for i := range 5 {
		all = append(all, f.csr(fmt.Sprintf("web-%d", i)))
	}
	approved, denied := f.outcomes(all...)
	if approved != 3 || len(denied) != 2 {
		t.Fatalf("%d are approved, and denied: %q", approved, denied)
	}
	text := regexp.MustCompile(`^QuotaExceeded: certificate policy web: the quota hourly of 3 certificates in 1h0m0s is used up; a request fits again at (\S+)$`)
	for _, message := range denied {
		match := text.FindStringSubmatch(message)
		if match == nil {
			t.Fatalf("the message is %q", message)
		}
		at, err := time.Parse(time.RFC3339, match[1])
		if rest := time.Until(at); err != nil || rest > time.Hour+time.Second || rest < 55*time.Minute {
			t.Errorf("it fits again in %v, %v", rest, err)
		}
	}
	f.restart()
	if approved, denied := f.outcomes(f.csr("web-6")); approved != 0 || !strings.Contains(denied[0], "QuotaExceeded") {
		t.Errorf("after a restart, %d are approved, and denied: %q", approved, denied)
	}
}

// restart starts the server again, with its data.
func (f *fixture) restart() {
	f.Helper()
	f.server.Restart(f.T)
	f.api = apitest.Client(f.T, f.server.Admin(f.T))
}
