package profile_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/profile"
)

// The first example of the documentation is what users start with: it issues
// what its text says, and refuses wildcards.
func TestDocumentedSigner(t *testing.T) {
	page, err := os.ReadFile("../../../docs/declared-signers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "kubectl apply -f - <<'END'\n")
	text, _, ok := strings.Cut(rest, "\nEND\n")
	var s v1alpha1.Signer
	if err := yaml.UnmarshalStrict([]byte(text), &s); !ok || err != nil {
		t.Fatalf("the example: %v", err)
	}
	p := compile(t, s.Spec)
	host := func(name string) x509.CertificateRequest {
		return x509.CertificateRequest{Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IPAddresses: []net.IP{{10, 1, 2, 3}}}
	}
	for name, reason := range map[string]string{
		"web1.hosts.example.com": "", "*.hosts.example.com": "Wildcard", "www.example.org": "ForeignName",
	} {
		facts := csrFacts(t, host(name))
		facts.Usages = s.Spec.Profile.Usages
		_, err := p.Decide(facts)
		if reason == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if got := refusal(t, err); got.Reason != reason {
			t.Errorf("%s: %+v, want %s", name, got, reason)
		}
	}
}

// No Signer takes the name of an Issuer, whose requests would be its own then.
func TestSignersAreNoIssuers(t *testing.T) {
	for name, want := range map[string]string{
		"issuers.cert-manager.io/default.ca": "reserved for Issuers and ClusterIssuers", "clusterissuers.cert-manager.io/corp": "reserved for Issuers and ClusterIssuers",
		"cert-manager.io/x": "", "issuers.example.com/x": "",
	} {
		spec := csrSpec()
		spec.SignerName = name
		_, problems := profile.Compile(spec, field.NewPath("spec"))
		errs := ""
		if len(problems) > 0 {
			errs = problems.ToAggregate().Error()
		}
		if want == "" && errs != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: %q, want %q", name, errs, want)
		}
	}
}
