package order_test

import (
	"strings"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/order"
	"github.com/certplane/certplane/internal/policy/request"
)

var le = cmmeta.IssuerReference{Name: "le", Kind: "ClusterIssuer", Group: "cert-manager.io"}

// The names are those that cert-manager gives.
func TestName(t *testing.T) {
	spec := acmev1.OrderSpec{Request: []byte("x"), IssuerRef: le, CommonName: "a.example.com", DNSNames: []string{"a.example.com"}}
	short := spec
	short.Duration, short.Profile = &metav1.Duration{Duration: time.Hour}, "shortlived"
	const long = "a-very-long-certificate-request-name-which-goes-beyond-52-1"
	fifty := strings.Repeat("a", 50)
	tests := []struct {
		reason, request string
		spec            acmev1.OrderSpec
		kind            v1alpha1.RequestKind
		want            string
	}{
		{"as it is", "web-1", spec, request.CertificateRequests, "web-1-4205611296"},
		{"with all that changes the hash", "web-1", short, request.CertificateRequests, "web-1-1017511380"},
		{"shortened", long, spec, request.CertificateRequests, "a-very-long-certificate-request-name-which-goes-beyo-1047323224"},
		{"a short name of another kind", "web-1", spec, v1alpha1.CertificateSigningRequests, "web-1-4205611296"},
		{"51 characters", fifty + "a", spec, request.CertificateRequests, fifty + "a-4205611296"},
		{"52 characters", fifty + "aa", spec, request.CertificateRequests, fifty + "aa-*"},
		{"52 characters of another kind", fifty + "aa", spec, v1alpha1.CertificateSigningRequests, fifty + "aa-*"},
		{"53 characters", fifty + "aaa", spec, request.CertificateRequests, fifty + "aa-*"},
		{"a dot at the cut", fifty + "a.a", spec, request.CertificateRequests, fifty + "a-*"},
		{"dashes at the cut", fifty + "--a", spec, request.CertificateRequests, fifty + "-*"},
	}
	seen := map[string]string{}
	for _, tc := range tests {
		got, err := order.Name(tc.kind, tc.request, tc.spec)
		if err != nil {
			t.Fatal(err)
		}
		if base, ok := strings.CutSuffix(tc.want, "*"); ok {
			if hash, ok := strings.CutPrefix(got, base); !ok || strings.Trim(hash, "0123456789") != "" || hash == "4205611296" {
				t.Errorf("%s: %s, not %s", tc.reason, got, tc.want)
			}
			if before := seen[got]; before != "" {
				t.Errorf("%s has the name of %s", tc.reason, before)
			}
			seen[got] = tc.reason
			continue
		}
		if got != tc.want {
			t.Errorf("%s: %s, not %s", tc.reason, got, tc.want)
		}
	}
}

func TestChallengeName(t *testing.T) {
	spec := acmev1.ChallengeSpec{
		URL: "https://ca.example/chall/1", AuthorizationURL: "https://ca.example/authz/1", DNSName: "a.example.com", Type: "HTTP-01", Token: "tok", Key: "tok.abc",
		Solver: acmev1.ACMEChallengeSolver{HTTP01: &acmev1.ACMEChallengeSolverHTTP01{Ingress: &acmev1.ACMEChallengeSolverHTTP01Ingress{}}}, IssuerRef: le,
	}
	got, err := order.ChallengeName("web-1-2029063428", spec)
	if err != nil || got != "web-1-2029063428-1938036228" {
		t.Errorf("%s, %v", got, err)
	}
	if spec.Key == "" {
		t.Error("the spec was changed")
	}
}
