package validate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"io"
	"math/big"
	"net"
	"net/netip"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/certplane/certplane/internal/acme/solver/live"
	"github.com/certplane/certplane/internal/acme/solver/solvertest"
	"github.com/certplane/certplane/internal/acme/solver/tlsalpn"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// proof is what a server of tls-alpn-01 has, to be changed by tests.
type proof struct {
	template    x509.Certificate
	issuer      *x509.Certificate // nil: the template
	signer      *ecdsa.PrivateKey // nil: the certificate's own key
	certificate tls.Certificate
	config      tls.Config
}

func mustMarshal(t testing.TB, value any) []byte {
	t.Helper()
	data, err := asn1.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func acmeIdentifier(t testing.TB, key string) pkix.Extension {
	sum := sha256.Sum256([]byte(key))
	return pkix.Extension{Id: rfc8555.AcmeIdentifier, Critical: true, Value: mustMarshal(t, sum[:])}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// prove serves a proof for a name, with what change makes of it.
func (w *world) prove(t *testing.T, change func(*proof)) (hellos chan *tls.ClientHelloInfo, rest chan []byte) {
	t.Helper()
	p := &proof{
		template: x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "any"}, DNSNames: []string{"a.example"},
			NotBefore: now.Add(-48 * time.Hour), NotAfter: now.Add(-24 * time.Hour), // dates do not matter
			ExtraExtensions: []pkix.Extension{acmeIdentifier(t, key)},
		},
		config: tls.Config{NextProtos: []string{rfc8555.TLSALPNProtocol}},
	}
	own := newKey(t)
	if change != nil {
		change(p)
	}
	issuer, signer := &p.template, own
	if p.issuer != nil {
		issuer = p.issuer
	}
	if p.signer != nil {
		signer = p.signer
	}
	der, err := x509.CreateCertificate(rand.Reader, &p.template, issuer, own.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	p.certificate.Certificate, p.certificate.PrivateKey = append([][]byte{der}, p.certificate.Certificate...), own
	hellos, rest = make(chan *tls.ClientHelloInfo, 1), make(chan []byte, 1)
	p.config.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		hellos <- hello
		return &p.certificate, nil
	}
	w.listen(t, func(conn net.Conn) {
		defer conn.Close()
		server := tls.Server(conn, &p.config)
		if server.Handshake() == nil {
			sent, _ := io.ReadAll(conn) // below TLS: not even an alert
			rest <- sent
		}
	})
	return hellos, rest
}

func TestTLSALPN(t *testing.T) {
	wrong := func(why string) want {
		return want{rfc8555.ProblemUnauthorized, "a.example does not answer the challenge: " + why, true, false}
	}
	failed := func(why string) want { return want{rfc8555.ProblemTLS, why, false, false} }
	san := asn1.ObjectIdentifier{2, 5, 29, 17}
	for _, tc := range []struct {
		reason string
		change func(*proof)
		want   want
	}{
		{"a proof", nil, want{}},
		{"TLS 1.2", func(p *proof) { p.config.MaxVersion = tls.VersionTLS12 }, want{}},
		{"capitals", func(p *proof) { p.template.DNSNames = []string{"A.Example"} }, want{}},
		{"no protocol", func(p *proof) { p.config.NextProtos = nil }, failed("a.example does not speak the protocol acme-tls/1")},
		{"another protocol", func(p *proof) { p.config.NextProtos = []string{"h2"} }, failed("the TLS handshake with a.example fails: tls: no application protocol")},
		{"TLS 1.1", func(p *proof) { p.config.MinVersion, p.config.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }, failed("the TLS handshake with a.example fails: tls: protocol version not supported")},
		{"two certificates", func(p *proof) {
			other, key := p.template, newKey(t)
			der, err := x509.CreateCertificate(rand.Reader, &other, &other, key.Public(), key)
			if err != nil {
				t.Fatal(err)
			}
			p.certificate.Certificate = [][]byte{der}
		}, wrong("it has 2 certificates, expected 1")},
		{"another issuer", func(p *proof) {
			p.signer = newKey(t)
			p.issuer = &x509.Certificate{Subject: pkix.Name{CommonName: "CA"}, PublicKey: p.signer.Public()}
		}, wrong("its certificate is not self-signed")},
		{"another issuer with the same key", func(p *proof) { p.issuer = &x509.Certificate{Subject: pkix.Name{CommonName: "CA"}} }, wrong("its certificate is not self-signed")},
		{"an issuer of the same name", func(p *proof) {
			p.signer = newKey(t)
			p.issuer = &x509.Certificate{Subject: p.template.Subject, PublicKey: p.signer.Public()}
		}, wrong("its certificate is not self-signed")},
		{"another name", func(p *proof) { p.template.DNSNames = []string{"b.example"} }, wrong("its certificate is for another name")},
		{"a pattern", func(p *proof) { p.template.DNSNames = []string{"*.example"} }, wrong("its certificate is for another name")},
		{"two names", func(p *proof) { p.template.DNSNames = append(p.template.DNSNames, "b.example") }, wrong("its certificate has 2 alternative names, expected 1")},
		{"the name twice", func(p *proof) { p.template.DNSNames = append(p.template.DNSNames, "a.example") }, wrong("its certificate has 2 alternative names, expected 1")},
		{"a name and an address", func(p *proof) { p.template.IPAddresses = []net.IP{{192, 0, 2, 1}} }, wrong("its certificate has 2 alternative names, expected 1")},
		{"a name and an e-mail address", func(p *proof) { p.template.EmailAddresses = []string{"a@a.example"} }, wrong("its certificate has 2 alternative names, expected 1")},
		{"the name as an e-mail address", func(p *proof) { p.template.DNSNames, p.template.EmailAddresses = nil, []string{"a.example"} }, wrong("its certificate is for another name")},
		{"a name of a type that x509 skips", func(p *proof) {
			p.template.ExtraExtensions = append(p.template.ExtraExtensions, pkix.Extension{Id: san, Value: mustMarshal(t, []asn1.RawValue{
				{Class: asn1.ClassContextSpecific, Tag: 2, Bytes: []byte("a.example")}, {Class: asn1.ClassContextSpecific, Tag: 8, Bytes: []byte{1}},
			})})
		}, wrong("its certificate has 2 alternative names, expected 1")},
		{"no alternative names", func(p *proof) { p.template.DNSNames, p.template.Subject.CommonName = nil, "a.example" }, wrong("its certificate has 0 extensions subjectAltName, expected 1")},
		{"no hash", func(p *proof) { p.template.ExtraExtensions = nil }, wrong("its certificate has no extension acmeIdentifier: it is not one of a challenge")},
		{"a hash that is not critical", func(p *proof) { p.template.ExtraExtensions[0].Critical = false }, wrong("the extension acmeIdentifier of its certificate is not critical")},
		{"the hash for another account", func(p *proof) { p.template.ExtraExtensions[0] = acmeIdentifier(t, token+".other") }, wrong("its certificate is that of another challenge")},
		{"bytes after the hash", func(p *proof) {
			p.template.ExtraExtensions[0].Value = append(p.template.ExtraExtensions[0].Value, 5, 0)
		}, wrong("its certificate is that of another challenge")},
		{"a hash without its type", func(p *proof) { p.template.ExtraExtensions[0].Value = p.template.ExtraExtensions[0].Value[2:] }, wrong("its certificate is that of another challenge")},
		{"a short hash", func(p *proof) { p.template.ExtraExtensions[0].Value = mustMarshal(t, make([]byte, 31)) }, wrong("its certificate is that of another challenge")},
		{"two hashes", func(p *proof) {
			p.template.ExtraExtensions = append(p.template.ExtraExtensions, acmeIdentifier(t, "other"))
		}, wrong("its certificate cannot be read")},
		{"an extension twice", func(p *proof) {
			other := pkix.Extension{Id: asn1.ObjectIdentifier{1, 2, 3}, Value: []byte{5, 0}}
			p.template.ExtraExtensions = append(p.template.ExtraExtensions, other, other)
		}, wrong("its certificate cannot be read")},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t, "a.example. 60 IN A 127.0.0.1")
			w.prove(t, tc.change)
			assertResult(t, w.validate(t, rfc8555.ChallengeTLSALPN01, "a.example"), tc.want)
		})
	}
}

// What is sent is one handshake that offers one protocol.
func TestTLSALPNHello(t *testing.T) {
	for _, tc := range []struct{ of, serverName string }{{"a.example", "a.example"}, {"127.0.0.1", "1.0.0.127.in-addr.arpa"}} {
		w := newWorld(t, "a.example. 60 IN A 127.0.0.1")
		hellos, rest := w.prove(t, func(p *proof) {
			if tc.of != "a.example" {
				p.template.DNSNames, p.template.IPAddresses = nil, []net.IP{net.ParseIP(tc.of)}
			}
		})
		got := w.validate(t, rfc8555.ChallengeTLSALPN01, tc.of)
		assertResult(t, got, want{})
		hello := <-hellos
		if diff := cmp.Diff([]string{"acme-tls/1"}, hello.SupportedProtos); diff != "" || hello.ServerName != tc.serverName {
			t.Errorf("name %q, protocols\n%s", hello.ServerName, diff)
		}
		if diff := cmp.Diff([]uint16{tls.VersionTLS13, tls.VersionTLS12}, hello.SupportedVersions); diff != "" {
			t.Error(diff)
		}
		if sent := <-rest; len(sent) > 0 {
			t.Errorf("%d bytes are sent after the handshake", len(sent))
		}
		if got.Record.Address != w.address || got.Record.TLSVersion != "TLS 1.3" || len(got.Record.SHA256) != 64 || !got.Record.Time.Equal(now) {
			t.Errorf("record %+v", got.Record)
		}
	}
}

// What answers challenges of other CAs in this program answers ours, too.
func TestTLSALPNResponder(t *testing.T) {
	w := newWorld(t, "a.example. 60 IN A 127.0.0.1")
	settings := tlsalpn.DefaultSettings()
	settings.Listen = []string{solvertest.FreeAddress(t)}
	index := live.NewIndex()
	server, err := tlsalpn.New(tlsalpn.Config{Settings: settings, Index: index, Clock: clocktesting.NewFakeClock(now)})
	if err != nil {
		t.Fatal(err)
	}
	solvertest.Serve(t, server)
	w.cfg.TLSPorts = []uint16{netip.MustParseAddrPort(settings.Listen[0]).Port()}
	for _, of := range []string{"a.example", "127.0.0.1"} {
		index.Set(&acmev1.Challenge{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: of, UID: types.UID(of), CreationTimestamp: metav1.Time{Time: now}},
			Spec:       acmev1.ChallengeSpec{Type: certmanager.TypeTLSALPN01, DNSName: of, Token: token, Key: key},
			Status:     acmev1.ChallengeStatus{Processing: true, Presented: true, PresentedAt: &metav1.Time{Time: now}},
		})
		assertResult(t, w.validate(t, rfc8555.ChallengeTLSALPN01, of), want{})
	}
}

// Connections that are not opened, or end, and handshakes that fail.
func TestTLSALPNFailures(t *testing.T) {
	none := want{rfc8555.ProblemConnection, "no TLS handshake from a.example", false, false}
	for reason, tc := range map[string]struct {
		speak func(net.Conn)
		want  want
	}{
		"no TLS":  {func(conn net.Conn) { _, _ = io.WriteString(conn, "220 "+secret+"\r\n"); conn.Close() }, want{rfc8555.ProblemTLS, "the TLS handshake with a.example fails", false, false}},
		"an end":  {func(conn net.Conn) { conn.Close() }, none},
		"nothing": {func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn); conn.Close() }, none},
	} {
		t.Run(reason, func(t *testing.T) {
			w := newWorld(t, "a.example. 60 IN A 127.0.0.1")
			w.listen(t, tc.speak)
			w.cfg.Timeout = 100 * time.Millisecond
			assertResult(t, w.validate(t, rfc8555.ChallengeTLSALPN01, "a.example"), tc.want)
		})
	}
	w := newWorld(t, "a.example. 60 IN A 127.0.0.1")
	w.cfg.TLSPorts = []uint16{1}
	assertResult(t, w.validate(t, rfc8555.ChallengeTLSALPN01, "a.example"), none)
}
