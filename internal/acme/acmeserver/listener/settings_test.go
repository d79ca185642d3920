package listener

import (
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	on := func(change func(*Settings)) Settings {
		s := DefaultSettings()
		s.Listen, s.ExternalURL = ":8443", "https://acme.example.com"
		change(&s)
		return s
	}
	for _, tc := range []struct {
		reason   string
		settings Settings
		want     string
	}{
		{"off", DefaultSettings(), ""},
		{"on", on(func(*Settings) {}), ""},
		{"a port", on(func(s *Settings) { s.ExternalURL = "https://acme.example.com:8443" }), ""},
		{"an address", on(func(s *Settings) { s.ExternalURL = "https://[fd00::1]:8443" }), ""},
		{"no port to listen at", on(func(s *Settings) { s.Listen = "acme" }), `acmeServer.listen: "acme" is not HOST:PORT`},
		{"no port for roots", on(func(s *Settings) { s.RootsListen = "here" }), `acmeServer.rootsListen: "here" is not HOST:PORT`},
		{"no URL", on(func(s *Settings) { s.ExternalURL = "" }), "acmeServer.externalURL: missing"},
		{"no TLS", on(func(s *Settings) { s.ExternalURL = "http://acme.example.com" }), `acmeServer.externalURL: "http://acme.example.com" must begin with https://`},
		{"a path", on(func(s *Settings) { s.ExternalURL = "https://acme.example.com/acme" }), "without a path"},
		{"a slash", on(func(s *Settings) { s.ExternalURL = "https://acme.example.com/" }), "without a path"},
		{"a query", on(func(s *Settings) { s.ExternalURL = "https://acme.example.com?" }), "without a path"},
		{"a user", on(func(s *Settings) { s.ExternalURL = "https://a@acme.example.com" }), "without a path"},
		{"upper case", on(func(s *Settings) { s.ExternalURL = "https://ACME.example.com" }), "lower case"},
		{"the port that is left out", on(func(s *Settings) { s.ExternalURL = "https://acme.example.com:443" }), "omit the port 443"},
		{"a former URL", on(func(s *Settings) { s.FormerURLs = []string{"https://old.example.com", "old"} }), "acmeServer.formerURLs[1]"},
		{"half a certificate", on(func(s *Settings) { s.Certificate.CertFile = "a" }), "acmeServer.certificate: set both"},
		{"a signer", on(func(s *Settings) { s.Certificate.Signer, s.Certificate.RootFile = "corp.example/hosts", "a" }), ""},
		{"an issuer of another group", on(func(s *Settings) {
			s.Certificate.Issuer = &IssuerSettings{Name: "a", Kind: "AWSPCAIssuer", Group: "awspca.cert-manager.io"}
		}), ""},
		{"two sources", on(func(s *Settings) { s.Certificate.Signer, s.Certificate.Self = "corp.example/hosts", true }), "acmeServer.certificate: self and signer are set"},
		{"no signer's name", on(func(s *Settings) { s.Certificate.Signer = "hosts" }), `acmeServer.certificate.signer: "hosts" is not the name of a signer`},
		{"a signer of clients", on(func(s *Settings) { s.Certificate.Signer = "kubernetes.io/kube-apiserver-client" }), "acmeServer.certificate.signer: kubernetes.io/kube-apiserver-client does not issue"},
		{"an issuer without a name", on(func(s *Settings) { s.Certificate.Issuer = &IssuerSettings{} }), "acmeServer.certificate.issuer.name: missing"},
		{"a kind of another group", on(func(s *Settings) { s.Certificate.Issuer = &IssuerSettings{Name: "a", Kind: "AWSPCAIssuer"} }), "acmeServer.certificate.issuer.kind"},
		{"no name", on(func(s *Settings) { s.Certificate.Names = []string{"192.0.2.1", "a b"} }), "acmeServer.certificate.names[1]"},
		{"the root of its own CA", on(func(s *Settings) { s.Certificate.Self, s.Certificate.RootFile = true, "a" }), "acmeServer.certificate.rootFile"},
		{"roots alone", on(func(s *Settings) { s.Certificate.RootFile = "a" }), "acmeServer.certificate.rootFile"},
		{"a proxy", on(func(s *Settings) { s.TrustedProxies = []string{"10.0.0.1"} }), `acmeServer.trustedProxies[0]: "10.0.0.1" is not a CIDR`},
		{"a reserved network", on(func(s *Settings) { s.ReservedNetworks = []string{"10.96.0.0/12", "services"} }), "acmeServer.reservedNetworks[1]"},
		{"clients", on(func(s *Settings) { s.ClientAddresses = []string{"all"} }), "acmeServer.clientAddresses[0]"},
		{"off, with a mistake", Settings{Listen: off, ExternalURL: "acme"}, "acmeServer.externalURL"},
	} {
		err := tc.settings.Validate()
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", tc.reason, err, tc.want)
		}
	}
}
