package explain

import (
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/policy/issuance"
)

func TestOutdated(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		reason     string
		end        time.Duration
		generation int64
		secret     Result
		want       string
	}{
		{"ready", time.Hour, 1, Yes, ""},
		{"expired", -time.Hour, 1, Yes, "was ready, and its certificate expired on 2026-03-01T11:00:00Z"},
		{"changed", time.Hour, 2, Yes, "was ready before the last change of its spec"},
		{"without its Secret", time.Hour, 1, No, "has lost its Secret web-tls"},
	} {
		end := metav1.NewTime(now.Add(tc.end))
		crt := &cmv1.Certificate{
			ObjectMeta: metav1.ObjectMeta{Generation: tc.generation}, Spec: cmv1.CertificateSpec{SecretName: "web-tls"},
			Status: cmv1.CertificateStatus{NotAfter: &end, Conditions: []cmv1.CertificateCondition{
				{Type: cmv1.CertificateConditionReady, Status: "True", ObservedGeneration: 1},
			}},
		}
		f := &CertificateFacts{Query: Query{Now: now}, Situation: issuance.Situation{Certificate: crt}, SecretExists: tc.secret}
		if got := f.outdated(); !strings.HasPrefix(got, tc.want) || tc.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", tc.reason, got, tc.want)
		}
	}
}
