package script

import (
	"encoding/base64"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/certplane/certplane/internal/acme/acmetest"
	"github.com/certplane/certplane/internal/acme/solver/dns/dnstest"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/apitest/freeport"
)

// tsigSecret is the key with which conversations sign dynamic updates.
var tsigSecret = base64.StdEncoding.EncodeToString([]byte("a key for updates of example.com"))

// macKey is the MAC key of the external account kid-1.
var macKey = []byte("a key for the external account kid-1")

// acme is what conversations about ACME issuers need: two CAs and a name server.
// The CAs look for the answers to challenges at ports of this host, whatever the
// name is.
type acme struct {
	// open gives an account to everybody. It limits orders for busy.example.com.
	open *acmetest.Server
	// bound demands an external account, and has a profile.
	bound *acmetest.Server
	// names is the name server of example.com, with dynamic updates.
	names *dnstest.Server
	// httpPort and tlsPort are where HTTP-01 and TLS-ALPN-01 are validated.
	httpPort, tlsPort string
	// serverPort and rootsPort are for an ACME server of certplane's.
	serverPort, rootsPort string
}

func startACME(t *testing.T) acme {
	t.Helper()
	a := acme{}
	for _, port := range []*string{&a.httpPort, &a.tlsPort, &a.serverPort, &a.rootsPort} {
		address, err := freeport.Address()
		if err != nil {
			t.Fatal(err)
		}
		_, *port, _ = net.SplitHostPort(address)
	}
	a.names = dnstest.Start(t, dnstest.Options{
		Keys: map[string]dnstest.Key{"certplane.": {Algorithm: dns.HmacSHA256, Secret: tsigSecret}},
	}, "example.com. 300 IN SOA ns1.example.com. admin.example.com. 1 3600 600 86400 60", "example.com. 300 IN NS ns1.example.com.")
	a.open = acmetest.Start(t, acmetest.Options{Validate: a.validate, Hook: limitBusy})
	a.bound = acmetest.Start(t, acmetest.Options{
		Validate: a.validate, ExternalAccounts: map[string][]byte{"kid-1": macKey},
		Profiles: map[string]string{"shortlived": "for six days"},
	})
	return a
}

// tell says in the environment of a conversation where everything is.
func (a acme) tell(env *testscript.Env) {
	env.Setenv("ACME_DIRECTORY", a.open.Directory())
	env.Setenv("ACME_BUNDLE", base64.StdEncoding.EncodeToString(a.open.CABundle()))
	env.Setenv("ACME_BOUND_DIRECTORY", a.bound.Directory())
	env.Setenv("ACME_BOUND_BUNDLE", base64.StdEncoding.EncodeToString(a.bound.CABundle()))
	env.Setenv("ACME_HTTP_PORT", a.httpPort)
	env.Setenv("ACME_TLS_PORT", a.tlsPort)
	env.Setenv("ACME_SERVER_PORT", a.serverPort)
	env.Setenv("ACME_ROOTS_PORT", a.rootsPort)
	env.Setenv("ACME_NAMESERVER", a.names.Addr)
	env.Setenv("TSIG_KEY", tsigSecret)
	env.Setenv("EAB_KEY", base64.RawURLEncoding.EncodeToString(macKey))
}

// limitBusy refuses orders for one name for an hour.
func limitBusy(c acmetest.Call) *acmetest.Reply {
	if c.Kind != acmetest.NewOrder || !strings.Contains(string(c.Payload), "busy.example.com") {
		return nil
	}
	return &acmetest.Reply{
		Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"3600"}},
		Problem: &rfc8555.Problem{Type: rfc8555.Namespace + rfc8555.ProblemRateLimited, Detail: "too many certificates for example.com"},
	}
}

// txt fails if a name has no TXT records, or with "!" if it has any.
//
//	[!] txt NAME
func (a acme) txt(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: [!] txt NAME")
	}
	if values := a.names.TXT(args[0] + "."); neg == (len(values) > 0) {
		ts.Fatalf("the TXT records of %s are %q", args[0], values)
	}
}
