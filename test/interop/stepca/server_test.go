package stepca

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/miekg/dns"
	"github.com/smallstep/certificates/acme"
	"github.com/smallstep/certificates/acme/api"
	acmedb "github.com/smallstep/certificates/acme/db/nosql"
	"github.com/smallstep/certificates/authority"
	"github.com/smallstep/certificates/authority/config"
	"github.com/smallstep/certificates/authority/provisioner"
	"github.com/smallstep/certificates/db"
	"github.com/smallstep/nosql"
	"go.step.sm/crypto/minica"
)

// The provisioners of a CA, each with a separate ACME directory.
const (
	open = "open"
	// bound requires external accounts.
	bound = "bound"
)

// stepCA is a running CA.
type stepCA struct {
	address string
	// bundle are the roots of its HTTPS certificate.
	bundle []byte
	roots  *minica.CA
	store  *acmedb.DB
}

// directory returns the address of the ACME directory of a provisioner.
func (ca *stepCA) directory(of string) string {
	return "https://" + ca.address + "/acme/" + of + "/directory"
}

// externalAccount returns a new key for an account of the provisioner that
// requires one. The key is in the form in which the command "step" shows it.
func (ca *stepCA) externalAccount(t testing.TB) *acme.ExternalAccountKey {
	t.Helper()
	key, err := ca.store.CreateExternalAccountKey(t.Context(), bound, "")
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// startStepCA runs the ACME part of step-ca until the test ends. It looks for
// challenges as view says.
func startStepCA(t testing.TB, view view) *stepCA {
	t.Helper()
	keys, err := minica.New()
	if err != nil {
		t.Fatal(err)
	}
	store, err := db.New(&db.Config{Type: nosql.BBoltDriver, DataSource: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	cfg := &config.Config{
		DNSNames: []string{"127.0.0.1"},
		AuthorityConfig: &config.AuthConfig{Provisioners: provisioner.List{
			&provisioner.ACME{Type: "ACME", Name: open},
			&provisioner.ACME{Type: "ACME", ID: bound, Name: bound, RequireEAB: true},
		}},
	}
	ca, err := authority.NewEmbedded(
		authority.WithConfig(cfg), authority.WithDatabase(store), authority.WithX509RootCerts(keys.Root),
		authority.WithX509Signer(keys.Intermediate, keys.Signer), authority.WithQuietInit(),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ca.Shutdown() })
	orders, err := acmedb.New(store.(nosql.DB))
	if err != nil {
		t.Fatal(err)
	}
	routes := chi.NewRouter()
	routes.Route("/acme", func(r chi.Router) { api.Route(r) })
	front := httptest.NewUnstartedServer(routes)
	address := front.Listener.Addr().String()
	front.Config.BaseContext = func(net.Listener) context.Context {
		ctx := db.NewContext(authority.NewContext(context.Background(), ca), store)
		return acme.NewContext(ctx, orders, view, acme.NewLinker(address, "acme"), nil)
	}
	front.StartTLS()
	t.Cleanup(front.Close)
	return &stepCA{
		address: address, roots: keys, store: orders,
		bundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw}),
	}
}

// view is how a CA sees the hosts that it validates: every one is this host, and
// the ports 80 and 443 are others.
type view struct {
	http, tls string
	// resolver is the DNS server that is asked for TXT records.
	resolver string
	// hosts are where the requests for single hosts go instead.
	hosts map[string]string
}

var _ acme.Client = view{}

func (v view) Get(url string) (*http.Response, error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			host, _, _ := net.SplitHostPort(address)
			return (&net.Dialer{}).DialContext(ctx, network, cmp.Or(v.hosts[host], v.http))
		},
	}
	return (&http.Client{Transport: transport}).Get(url)
}

func (v view) TLSDial(network, _ string, config *tls.Config) (*tls.Conn, error) {
	return tls.Dial(network, v.tls, config)
}

func (v view) LookupTxt(name string) ([]string, error) {
	reply, _, err := (&dns.Client{}).Exchange(new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeTXT), v.resolver)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, record := range reply.Answer {
		if txt, is := record.(*dns.TXT); is {
			found = append(found, strings.Join(txt.Txt, ""))
		}
	}
	return found, nil
}
