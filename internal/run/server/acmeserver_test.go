package server

import (
	"slices"
	"testing"

	"github.com/certplane/certplane/internal/acme/acmeserver/listener"
	"github.com/certplane/certplane/internal/pki"
)

// The ACME server's own certificate is of the serving CA, for the host of its URL, and is
// kept, renewed in time, and made again for another host.
func TestACMECertificate(t *testing.T) {
	dir := t.TempDir()
	credentials := mustOpenPKI(t, dir, someNames, firstStart)
	cfg := DefaultConfig()
	if off, keeper, err := newACMEListener(t.Context(), cfg, dir, credentials, firstStart); off != nil || keeper != nil || err != nil || keeper.renew(credentials, firstStart) != nil {
		t.Errorf("without settings: %v, %v, %v", off, keeper, err)
	}
	open := func(url string) (*listener.Server, *acmeCertificate) {
		t.Helper()
		cfg.ACMEServer.Listen, cfg.ACMEServer.ExternalURL = "127.0.0.1:0", url
		server, keeper, err := newACMEListener(t.Context(), cfg, dir, credentials, firstStart)
		if err != nil {
			t.Fatal(err)
		}
		return server, keeper
	}
	server, keeper := open("https://acme.example.com:8443")
	first := keeper.pair.chain[0]
	if !slices.Equal(first.DNSNames, []string{"acme.example.com"}) || first.CheckSignatureFrom(credentials.servingRoot.Certificate()) != nil {
		t.Errorf("the certificate is for %v, of %s", first.DNSNames, first.Issuer)
	}
	if string(server.Trust().PEM()) != string(pki.EncodeCertificates(credentials.servingRoot.Certificate())) || server.Ready(nil) != nil {
		t.Errorf("trust %s, ready %v", server.Trust().PEM(), server.Ready(nil))
	}
	if _, again := open("https://acme.example.com:8443"); !again.pair.chain[0].Equal(first) {
		t.Error("a second start has another certificate")
	}
	if err := keeper.renew(credentials, firstStart.Add(leafLifetime-renewBefore)); err != nil || keeper.pair.chain[0].Equal(first) {
		t.Errorf("eleven months later: %v, the same %t", err, keeper.pair.chain[0].Equal(first))
	}
	if _, other := open("https://192.0.2.7"); len(other.pair.chain[0].IPAddresses) != 1 || len(other.pair.chain[0].DNSNames) != 0 {
		t.Errorf("an address: %v, %v", other.pair.chain[0].IPAddresses, other.pair.chain[0].DNSNames)
	}
}
