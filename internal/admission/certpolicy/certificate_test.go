package certpolicy

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policies"
	policy "github.com/certplane/certplane/internal/policy/certpolicy"
)

func TestCertificateField(t *testing.T) {
	for at, want := range map[string]string{
		"dnsNames[1]": "spec.dnsNames[1]", "ipAddresses": "spec.ipAddresses", "subject.commonName": "spec.commonName", "subject": "spec.subject",
		"subject.organizations": "spec.subject.organizations", "key": "spec.privateKey", "duration": "spec.duration", "isCA": "spec.isCA",
		"nameConstraints.permitted.dns": "spec.nameConstraints", "names": "spec", "": "spec", "extensions[0]": "spec",
	} {
		if got := certificateField(v1alpha1.CertificateRequests, at); got != want {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
	}
}

func TestDeniedWarnings(t *testing.T) {
	long := strings.Repeat("ä", 300)
	several := func(n int, message string) *policies.Decision {
		d := &policies.Decision{Set: policy.NewSet(nil, nil), PolicyDecision: &v1alpha1.PolicyDecision{Message: strings.Repeat(message, n)}}
		for range n {
			d.Violations = append(d.Violations, v1alpha1.PolicyViolation{Policy: "p", Message: message})
		}
		return d
	}
	ruling := several(0, "")
	ruling.Message = long
	for _, tc := range []struct {
		reason string
		about  *policies.Decision
		want   int
		last   string
	}{
		{"what fits", several(2, "short "), 1, "denied: short short "},
		{"what does not fit", several(3, long), 3, "ä..."},
		{"more than the API server passes on", several(30, long), 11, "for 20 more reasons"},
		{"what has no violations", ruling, 1, "ä..."},
	} {
		got := deniedWarnings(tc.about)
		if len(got) != tc.want || !strings.HasSuffix(got[len(got)-1], tc.last) {
			t.Errorf("%s: %q", tc.reason, got)
		}
		for _, warning := range got {
			if n := utf8.RuneCountInString(warning); n > 256 {
				t.Errorf("%s: %d characters", tc.reason, n)
			}
		}
	}
}
