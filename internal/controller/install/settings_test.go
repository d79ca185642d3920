package install

import (
	"strings"
	"testing"
)

func TestSettings(t *testing.T) {
	tests := []struct {
		reason string
		change func(*SignerSettings)
		want   string
	}{
		{"nothing", func(*SignerSettings) {}, ""},
		{"all", func(s *SignerSettings) {
			s.Install, s.TrustDomain = []string{"spiffe", "service-dns", "kube-apiserver-client-pod"}, "example.org"
		}, ""},
		{"no trust domain", func(s *SignerSettings) { s.Install = []string{"spiffe"} }, "podSigners.trustDomain: a trust domain must not be empty"},
		{"a URL for a trust domain", func(s *SignerSettings) { s.Install, s.TrustDomain = []string{"spiffe"}, "spiffe://example.org" }, "podSigners.trustDomain: "},
		{"no cluster domain", func(s *SignerSettings) { s.Install, s.ClusterDomain = []string{"service-dns"}, "" }, "podSigners.clusterDomain: "},
		{"an unknown Signer", func(s *SignerSettings) { s.Install = []string{"kube-apiserver-client-pod", "vault"} }, `podSigners.install[1]: unknown Signer "vault"`},
		{"one twice", func(s *SignerSettings) { s.Install = []string{"service-dns", "service-dns"} }, "podSigners.install[1]: service-dns is listed twice"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			s := DefaultSignerSettings()
			tc.change(&s)
			err := s.Validate()
			if (err == nil) != (tc.want == "") || err != nil && !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}
