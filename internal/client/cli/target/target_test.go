package target_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/client/cli/target"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		reason                        string
		verb, signer, kind, namespace string
		want                          string // the text, or a part of the error
		names                         []string
	}{
		{"a signer", "approve", "example.com/hosts", "", "", "approve CertificateSigningRequests for example.com/hosts", []string{"example.com/hosts", "example.com/*"}},
		{"a domain", "approve", "example.com/*", "", "", "approve CertificateSigningRequests for all signers of example.com", []string{"example.com/*"}},
		{"an Issuer has a namespace", "approve", "issuers.cert-manager.io/shop.ca", "", "", "approve CertificateRequests for issuers.cert-manager.io/shop.ca in the namespace shop",
			[]string{"issuers.cert-manager.io/shop.ca", "issuers.cert-manager.io/*"}},
		{"its own namespace", "approve", "issuers.cert-manager.io/shop.ca.v2", "", "shop", "for issuers.cert-manager.io/shop.ca.v2 in the namespace shop", nil},
		{"another namespace", "approve", "issuers.cert-manager.io/shop.ca", "", "web", "--namespace web: CertificateRequests to issuers.cert-manager.io/shop.ca are in the namespace of the Issuer, shop", nil},
		{"all Issuers", "approve", "issuers.cert-manager.io/*", "", "", "approve CertificateRequests for all signers of issuers.cert-manager.io", nil},
		{"a ClusterIssuer, everywhere", "approve", "clusterissuers.cert-manager.io/corp", "", "", "approve CertificateRequests for clusterissuers.cert-manager.io/corp", nil},
		{"a ClusterIssuer, in a namespace", "approve", "clusterissuers.cert-manager.io/corp", "", "web", "clusterissuers.cert-manager.io/corp in the namespace web", nil},
		{"another kind for an Issuer", "approve", "issuers.cert-manager.io/shop.ca", "csr", "", "approve CertificateSigningRequests for issuers.cert-manager.io/shop.ca", nil},
		{"an issuer of another program", "approve", "sampleissuers.example.com/shop.web", "CertificateRequest", "", "approve CertificateRequests for sampleissuers.example.com/shop.web", nil},
		{"pods' requests", "sign", "example.com/pods", "podcertificaterequests", "shop", "sign PodCertificateRequests for example.com/pods in the namespace shop", nil},
		{"nobody approves those of pods", "approve", "example.com/pods", "pcr", "", `--kind "pcr" cannot be for "approve": want CertificateSigningRequest or CertificateRequest`, nil},
		{"requests are not limited to a signer", "request", "example.com/hosts", "", "", "create CertificateSigningRequests for any signer", nil},
		{"but for Issuers, which demand a right", "request", "issuers.cert-manager.io/shop.ca", "csr", "", "create CertificateSigningRequests for issuers.cert-manager.io/shop.ca", nil},
		{"nor are answers of issuers", "sign", "clusterissuers.cert-manager.io/corp", "", "", "sign CertificateRequests to any issuer", nil},
		{"bundles", "attest", "example.com/hosts", "", "", "write ClusterTrustBundles of example.com/hosts", nil},
		{"those of Issuers too", "attest", "issuers.cert-manager.io/shop.ca", "", "", "write ClusterTrustBundles of issuers.cert-manager.io/shop.ca", nil},
		{"certificates", "revoke", "example.com/hosts", "", "", "revoke certificates of example.com/hosts", nil},
		{"those of Issuers", "revoke", "issuers.cert-manager.io/shop.ca", "", "", "revoke certificates of issuers.cert-manager.io/shop.ca", nil},
		{"not in one namespace", "revoke", "example.com/hosts", "", "shop", "--namespace shop: Revocations have no namespace: omit the flag", nil},
		{"all signers", "approve", "*", "", "", "approve CertificateSigningRequests for all signers", nil},
		{"a kind without namespaces", "approve", "example.com/hosts", "", "shop", "--namespace shop: CertificateSigningRequests have no namespace: omit the flag", nil},

		{"nothing", "approve", "", "", "", "the name of the signer is empty", nil},
		{"the name of a Signer", "approve", "hosts", "", "", `"hosts" is not the name of a signer: want DOMAIN/NAME, such as example.com/web`, nil},
		{"a signer of Kubernetes, without its domain", "approve", "kubelet-serving", "", "", "did you mean kubernetes.io/kubelet-serving?", nil},
		{"kubectl's KIND/NAME", "approve", "issuer/ca", "", "", `"issuer/ca" is not the name of an issuer: want issuers.cert-manager.io/NAMESPACE.NAME`, nil},
		{"of a ClusterIssuer", "approve", "clusterissuer.cert-manager.io/corp", "", "", "want clusterissuers.cert-manager.io/NAME", nil},
		{"an Issuer without its namespace", "approve", "issuers.cert-manager.io/ca", "", "", "want issuers.cert-manager.io/<namespace>.<name>", nil},
		{"a pattern", "approve", "issuers.cert-manager.io/shop.*", "", "", "a star stands for names only in DOMAIN/*, here issuers.cert-manager.io/*", nil},
		{"a pattern of domains", "approve", "*.example.com/web", "", "", "a star stands for names only in DOMAIN/*", nil},
		{"no domain", "approve", "example/web", "", "", "at least two segments", nil},
		{"two slashes", "approve", "example.com/a/b", "", "", "of the form", nil},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			got, err := target.Parse(tt.verb, tt.signer, tt.kind, tt.namespace)
			text := got.String()
			if err != nil {
				text = err.Error()
			}
			if !strings.Contains(text, tt.want) {
				t.Errorf("got %q, want %q", text, tt.want)
			}
			if tt.names != nil && !slices.Equal(got.SignerNames(), tt.names) {
				t.Errorf("names of signers: %v", got.SignerNames())
			}
		})
	}
}

func TestUse(t *testing.T) {
	for policy, want := range map[string]string{
		"hosts": "use the CertificatePolicy hosts in the namespace shop", "certificatepolicies/hosts": "use the CertificatePolicy hosts in the namespace shop",
		"": "is not the name", "a/b": "is not the name",
	} {
		got, err := target.Policy("use", policy, "shop")
		if err == nil && got.String() != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %s, %v", policy, got, err)
		}
	}
}
