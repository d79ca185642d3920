package acmeclients

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"testing"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3"
	acmezacme "github.com/mholt/acmez/v3/acme"
	"go.uber.org/zap"
	"golang.org/x/crypto/acme"
)

// directory is the URL of the directory of the endpoint corp.
const directory = "https://acme.corp.example:8443/acme/corp/directory"

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// externalKey returns the identifier and the key of the external key in the namespace
// shop, as clients are given it.
func (w *world) externalKey(t *testing.T) (kid, hmac string) {
	t.Helper()
	const secret = "certplane kubectl get secret -n shop acme-fleet --template "
	return w.run(t, w.dir, secret+"'{{.data.kid | base64decode}}'"), w.run(t, w.dir, secret+"'{{.data.hmac | base64decode}}'")
}

// testXCrypto has golang.org/x/crypto/acme, bound to an external key, with all three
// kinds of challenges.
func testXCrypto(t *testing.T, w *world) {
	kid, text := w.externalKey(t)
	mac, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	ctx, before, c := t.Context(), w.orders(t), &acme.Client{DirectoryURL: directory, Key: newKey(t)}
	account := &acme.Account{Contact: []string{"mailto:ops@corp.example"}, ExternalAccountBinding: &acme.ExternalAccountBinding{KID: kid, Key: mac}}
	if _, err := c.Register(ctx, account, acme.AcceptTOS); err != nil {
		t.Fatal(err)
	}
	next := newKey(t)
	if err := c.AccountKeyRollover(ctx, next); err != nil {
		t.Fatal(err)
	}
	c.Key = next
	for _, kind := range []string{"http-01", "dns-01", "tls-alpn-01"} {
		w.verifyChain(t, w.orderXCrypto(t, c, kind, "web.shop.corp.example"), "web.shop.corp.example")
	}
	w.verifyChain(t, w.orderXCrypto(t, c, "dns-01", "*.shop.corp.example"), "any.shop.corp.example")
	// A name that does not exist, which the external key proves.
	chain := w.orderXCrypto(t, c, "", "host.known.shop.corp.example")
	leaf := w.verifyChain(t, chain, "host.known.shop.corp.example")
	if err := c.RevokeCert(ctx, nil, leaf.Raw, acme.CRLReasonSuperseded); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AuthorizeOrder(ctx, acme.DomainIDs("web.corp.example")); !hasType(err, "rejectedIdentifier") {
		t.Errorf("a name that the external key does not permit: %v", err)
	}
	if got, want := w.since(t, before), (outcome{issued: 5, revoked: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if err := c.DeactivateReg(ctx); err != nil {
		t.Fatal(err)
	}
}

func hasType(err error, kind string) bool {
	var problem *acme.Error
	return errors.As(err, &problem) && problem.ProblemType == "urn:ietf:params:acme:error:"+kind
}

// orderXCrypto orders a certificate for a name and returns its chain in PEM.
func (w *world) orderXCrypto(t *testing.T, c *acme.Client, kind, name string) []byte {
	t.Helper()
	ctx := t.Context()
	order, err := c.AuthorizeOrder(ctx, acme.DomainIDs(name))
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range order.AuthzURLs {
		authz, err := c.GetAuthorization(ctx, url)
		if err != nil {
			t.Fatal(err)
		}
		if authz.Status == acme.StatusValid {
			continue
		}
		w.solveXCrypto(t, c, authz, kind)
	}
	if order, err = c.WaitOrder(ctx, order.URI); err != nil {
		t.Fatal(err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{name}}, newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	chain, _, err := c.CreateOrderCert(ctx, order.FinalizeURL, csr, true)
	if err != nil {
		t.Fatal(err)
	}
	var text []byte
	for _, der := range chain {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return text
}

func (w *world) solveXCrypto(t *testing.T, c *acme.Client, authz *acme.Authorization, kind string) {
	t.Helper()
	for _, challenge := range authz.Challenges {
		if challenge.Type != kind {
			continue
		}
		switch kind {
		case "http-01":
			answer, err := c.HTTP01ChallengeResponse(challenge.Token)
			if err != nil {
				t.Fatal(err)
			}
			defer serve(t, c.HTTP01ChallengePath(challenge.Token), answer)()
		case "dns-01":
			record, err := c.DNS01ChallengeRecord(challenge.Token)
			if err != nil {
				t.Fatal(err)
			}
			w.names.Set(t, append(records, "_acme-challenge."+authz.Identifier.Value+". 1 IN TXT "+record)...)
			defer w.names.Set(t, records...)
		case "tls-alpn-01":
			cert, err := c.TLSALPN01ChallengeCert(challenge.Token, authz.Identifier.Value)
			if err != nil {
				t.Fatal(err)
			}
			defer serveALPN(t, cert)()
		}
		if _, err := c.Accept(t.Context(), challenge); err != nil {
			t.Fatal(err)
		}
		if _, err := c.WaitAuthorization(t.Context(), authz.URI); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("%s has no challenge %q", authz.Identifier.Value, kind)
}

// serve answers HTTP requests for a path at port 80, until stop is called.
func serve(t *testing.T, path, answer string) (stop func()) {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(nameAddress, "80"))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc(path, func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte(answer)) })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: commandTimeout}
	go func() { _ = server.Serve(listener) }()
	return func() { _ = server.Close() }
}

// serveALPN answers tls-alpn-01 at port 443, until stop is called.
func serveALPN(t *testing.T, cert tls.Certificate) (stop func()) {
	t.Helper()
	listener, err := tls.Listen("tcp", net.JoinHostPort(nameAddress, "443"), &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{acme.ALPNProto}})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = conn.(*tls.Conn).HandshakeContext(t.Context())
			}()
		}
	}()
	return func() { _ = listener.Close() }
}

// solver solves challenges of acmez by starting and stopping something.
type solver struct {
	start func(acmezacme.Challenge) (stop func())
	stop  func()
}

func (s *solver) Present(_ context.Context, c acmezacme.Challenge) error {
	s.stop = s.start(c)
	return nil
}

func (s *solver) CleanUp(context.Context, acmezacme.Challenge) error {
	s.stop()
	return nil
}

// testACMEz has mholt/acmez, with renewal information and an order that replaces
// another one.
func testACMEz(t *testing.T, w *world) {
	ctx, before := t.Context(), w.orders(t)
	c := acmez.Client{Client: &acmezacme.Client{Directory: directory}, ChallengeSolvers: map[string]acmez.Solver{
		acmezacme.ChallengeTypeTLSALPN01: &solver{start: func(c acmezacme.Challenge) func() {
			cert, err := acmez.TLSALPN01ChallengeCert(c)
			if err != nil {
				t.Fatal(err)
			}
			return serveALPN(t, *cert)
		}},
	}}
	account, err := c.NewAccount(ctx, acmezacme.Account{TermsOfServiceAgreed: true, PrivateKey: newKey(t)})
	if err != nil {
		t.Fatal(err)
	}
	obtain := func(replaced *x509.Certificate) (acmezacme.Certificate, *x509.Certificate) {
		var key crypto.Signer = newKey(t)
		csr, err := acmez.NewCSR(key, []string{"web.corp.example"})
		if err != nil {
			t.Fatal(err)
		}
		params, err := acmez.OrderParametersFromCSR(account, csr)
		if err != nil {
			t.Fatal(err)
		}
		params.Profile, params.Replaces = "server", replaced
		chains, err := c.ObtainCertificate(ctx, params)
		if err != nil {
			t.Fatal(err)
		}
		return chains[0], w.verifyChain(t, chains[0].ChainPEM, "web.corp.example")
	}
	first, leaf := obtain(nil)
	if first.RenewalInfo == nil || !first.RenewalInfo.HasWindow() {
		t.Errorf("renewal information: %+v", first.RenewalInfo)
	}
	_, second := obtain(leaf)
	if err := c.RevokeCertificate(ctx, account, second, nil, acmezacme.ReasonCessationOfOperation); err != nil {
		t.Fatal(err)
	}
	if got, want := w.since(t, before), (outcome{issued: 2, revoked: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// testCertMagic has caddyserver/certmagic, with an external key: it gets, renews and
// revokes.
func testCertMagic(t *testing.T, w *world) {
	kid, hmac := w.externalKey(t)
	const name = "web.shop.corp.example"
	ctx, before, dir := t.Context(), w.orders(t), t.TempDir()
	cfg := certmagic.Config{Storage: &certmagic.FileStorage{Path: dir}, Logger: zap.NewNop(), KeySource: certmagic.StandardKeyGenerator{KeyType: certmagic.P256}}
	var magic *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return magic, nil }, Logger: cfg.Logger})
	defer cache.Stop()
	magic = certmagic.New(cache, cfg)
	issuer := certmagic.NewACMEIssuer(magic, certmagic.ACMEIssuer{
		CA: directory, Email: "ops@corp.example", Agreed: true, ExternalAccount: &acmezacme.EAB{KeyID: kid, MACKey: hmac}, Logger: cfg.Logger,
	})
	magic.Issuers = []certmagic.Issuer{issuer}
	if err := magic.ObtainCertSync(ctx, name); err != nil {
		t.Fatal(err)
	}
	if err := magic.RenewCertSync(ctx, name, true); err != nil {
		t.Fatal(err)
	}
	chain, err := cfg.Storage.Load(ctx, certmagic.StorageKeys.SiteCert(issuer.IssuerKey(), name))
	if err != nil {
		t.Fatal(err)
	}
	w.verifyChain(t, chain, name)
	if err := magic.RevokeCert(ctx, name, acmezacme.ReasonSuperseded, false); err != nil {
		t.Fatal(err)
	}
	if got, want := w.since(t, before), (outcome{issued: 2, revoked: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
