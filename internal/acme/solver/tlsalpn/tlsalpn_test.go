package tlsalpn_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/certplane/certplane/internal/acme/solver"
	"github.com/certplane/certplane/internal/acme/solver/live"
	"github.com/certplane/certplane/internal/acme/solver/selfcheck"
	"github.com/certplane/certplane/internal/acme/solver/solvertest"
	"github.com/certplane/certplane/internal/acme/solver/tlsalpn"
	"github.com/certplane/certplane/internal/api/certmanager"
)

const (
	token = "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA"
	key   = token + ".nP1qzpXGymHBrUEepNY9HCsQk7K8KhOypzEt62jcerQ"
	six   = "2001:db8::1"
	six1  = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa"
)

var now = time.Now().Truncate(time.Second) // handshakes compare it with the real time

func challenge(host, key string) *acmev1.Challenge {
	return &acmev1.Challenge{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web-1", UID: types.UID(host + key), CreationTimestamp: metav1.Time{Time: now}},
		Spec:       acmev1.ChallengeSpec{Type: certmanager.TypeTLSALPN01, DNSName: host, Token: token, Key: key},
		Status:     acmev1.ChallengeStatus{Processing: true, Presented: true, PresentedAt: &metav1.Time{Time: now}},
	}
}

type fixture struct {
	*tlsalpn.Server
	index    *live.Index
	registry *prometheus.Registry
	address  string
}

func start(t *testing.T, changes ...func(*tlsalpn.Settings)) *fixture {
	t.Helper()
	f := &fixture{index: live.NewIndex(), registry: prometheus.NewRegistry(), address: solvertest.FreeAddress(t)}
	settings := tlsalpn.DefaultSettings()
	settings.Listen = []string{f.address}
	for _, change := range changes {
		change(&settings)
	}
	s, err := tlsalpn.New(tlsalpn.Config{Settings: settings, Index: f.index, Metrics: f.registry, Clock: clocktesting.NewFakeClock(now)})
	if err != nil {
		t.Fatal(err)
	}
	f.Server = s
	solvertest.Serve(t, s)
	return f
}

// validate connects as an ACME server does. It returns the connection after the
// handshake.
func validate(address, serverName string, protocols ...string) (*tls.Conn, error) {
	return tls.Dial("tcp", address, &tls.Config{ServerName: serverName, NextProtos: protocols, InsecureSkipVerify: true})
}

// The contents of certificates, byte for byte (RFC 8737 section 3, RFC 8738
// section 6).
func TestCertificates(t *testing.T) {
	f := start(t)
	for _, tc := range []struct {
		reason, host, serverName string
		san                      string // DER in hexadecimal
	}{
		{"a name", "a.example.com", "a.example.com", "300f820d" + hex.EncodeToString([]byte("a.example.com"))},
		{"a name in another form", "B.Example.com", "b.example.com", "300f820d" + hex.EncodeToString([]byte("b.example.com"))},
		{"an IPv4 address", "192.0.2.1", "1.2.0.192.in-addr.arpa", "30068704c0000201"},
		{"an IPv6 address", six, six1, "3012871020010db8000000000000000000000001"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			f.index.Set(challenge(tc.host, key))
			connection, err := validate(f.address, tc.serverName, "acme-tls/1")
			if err != nil {
				t.Fatal(err)
			}
			defer connection.Close()
			state := connection.ConnectionState()
			if state.NegotiatedProtocol != "acme-tls/1" || len(state.PeerCertificates) != 1 {
				t.Fatalf("protocol %q, %d certificates", state.NegotiatedProtocol, len(state.PeerCertificates))
			}
			cert := state.PeerCertificates[0]
			hash := sha256.Sum256([]byte(key))
			extension := "303106082b0601050507011f0101ff042204" + "20" + hex.EncodeToString(hash[:])
			if got := hex.EncodeToString(cert.RawTBSCertificate); strings.Count(got, extension) != 1 {
				t.Errorf("the certificate has no %s", extension)
			}
			var sans []string
			for _, e := range cert.Extensions {
				if e.Id.Equal(asn1.ObjectIdentifier{2, 5, 29, 17}) {
					sans = append(sans, hex.EncodeToString(e.Value))
				}
			}
			if diff := cmp.Diff([]string{tc.san}, sans); diff != "" {
				t.Error(diff)
			}
			if err := cert.CheckSignature(cert.SignatureAlgorithm, cert.RawTBSCertificate, cert.Signature); err != nil || !bytes.Equal(cert.RawIssuer, cert.RawSubject) {
				t.Errorf("it is not self-signed: %v", err)
			}
			if now.Before(cert.NotBefore) || now.After(cert.NotAfter) || cert.PublicKeyAlgorithm != x509.ECDSA {
				t.Errorf("from %v to %v, %v", cert.NotBefore, cert.NotAfter, cert.PublicKeyAlgorithm)
			}
			// The server closes the connection.
			if data, err := io.ReadAll(connection); err != nil || len(data) > 0 {
				t.Errorf("read %q, %v", data, err)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	f := start(t)
	f.index.Set(challenge("a.example.com", key))
	for _, tc := range []struct {
		reason, serverName string
		protocols          []string
		want               string
	}{
		{"another name", "b.example.com", []string{"acme-tls/1"}, "unrecognized name"},
		{"no name", "", []string{"acme-tls/1"}, "unrecognized name"},
		{"a browser", "a.example.com", []string{"h2", "http/1.1"}, "no application protocol"},
		{"no protocol", "a.example.com", nil, "unrecognized name"},
		{"more than validation", "a.example.com", []string{"acme-tls/1", "h2"}, "unrecognized name"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
				_, err := tls.Dial("tcp", f.address, &tls.Config{ServerName: tc.serverName, NextProtos: tc.protocols, InsecureSkipVerify: true, MaxVersion: version})
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("version %x: %v", version, err)
				}
			}
		})
	}
	if _, err := tls.Dial("tcp", f.address, &tls.Config{ServerName: "a.example.com", NextProtos: []string{"acme-tls/1"}, InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	f.index.Delete(types.UID("a.example.com" + key))
	if _, err := validate(f.address, "a.example.com", "acme-tls/1"); err == nil || !strings.Contains(err.Error(), "unrecognized name") {
		t.Errorf("after its end: %v", err)
	}
	const want = "# HELP certplane_acme_tlsalpn01_handshakes_total Number of handshakes at the listeners for TLS-ALPN-01 challenges, by result (hit, refused).\n" +
		"# TYPE certplane_acme_tlsalpn01_handshakes_total counter\n" +
		"certplane_acme_tlsalpn01_handshakes_total{result=\"hit\"} 0\ncertplane_acme_tlsalpn01_handshakes_total{result=\"refused\"} 12\n"
	solvertest.Eventually(t, "all are counted", func() bool { return testutil.GatherAndCompare(f.registry, strings.NewReader(want)) == nil })
}

// world is a network in which all names have one address.
type world struct {
	err    error // of connections
	server string
}

func (w *world) network() selfcheck.Network { return selfcheck.Network{Resolver: w, Dial: w.dial} }

func (w *world) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil
}

func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	switch {
	case w.err != nil:
		return nil, &net.OpError{Op: "dial", Net: network, Err: w.err}
	case !strings.HasSuffix(address, ":443"):
		return nil, errors.New("unexpected port")
	}
	return (&net.Dialer{}).DialContext(ctx, network, w.server)
}

func TestCheck(t *testing.T) {
	site := httptest.NewTLSServer(http.NotFoundHandler())
	defer site.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	other := start(t)
	other.index.Set(challenge("a.example.com", "other.key"))
	const at = "failed to perform self check of a.example.com: 192.0.2.1:443: "
	for _, tc := range []struct {
		reason    string
		policy    selfcheck.Policy
		known     bool
		err       error
		server    string // empty: this one
		presented time.Duration
		want      string
		note      string
	}{
		{reason: "both answer", policy: selfcheck.Full, known: true},
		{reason: "this one has no such challenge", policy: selfcheck.Full, want: "the built-in server does not answer at acme.tlsALPN01.listen[0]: the TLS handshake fails: tls: unrecognized name"},
		{reason: "a site", policy: selfcheck.Full, known: true, server: site.Listener.Addr().String(), presented: time.Hour, want: at + "the TLS handshake fails: tls: no application protocol"},
		{reason: "a server without TLS", policy: selfcheck.Full, known: true, server: plain.Listener.Addr().String(), presented: time.Hour, want: at + "the TLS handshake fails: the server does not speak the protocol"},
		{reason: "the answer to another challenge", policy: selfcheck.Full, known: true, server: other.address, presented: time.Hour, want: at + "its certificate is that of another challenge"},
		{reason: "not reached, for now", policy: selfcheck.Full, known: true, err: syscall.ECONNREFUSED, presented: 59 * time.Second, want: "failed to perform self check of a.example.com: connecting to 192.0.2.1:443: connection refused"},
		{reason: "not reached", policy: selfcheck.Full, known: true, err: syscall.ECONNREFUSED, presented: time.Minute, note: "the public address cannot be reached from here, but this server answers, so the ACME server is asked to look: failed to perform self check of a.example.com: connecting to 192.0.2.1:443: connection refused"},
		{reason: "this one is enough", policy: selfcheck.Local, known: true, server: plain.Listener.Addr().String()},
		{reason: "nothing is checked", policy: selfcheck.None},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			f := start(t, func(s *tlsalpn.Settings) { s.SelfCheck = tc.policy })
			w := &world{err: tc.err, server: tc.server}
			if tc.server == "" {
				w.server = f.address
			}
			task := solver.Task{Challenge: challenge("a.example.com", key), Now: now.Add(tc.presented)}
			if tc.known {
				f.index.Set(task.Challenge)
			}
			found, err := f.Solver(w.network()).Check(t.Context(), task)
			solvertest.AssertError(t, err, tc.want)
			if diff := cmp.Diff(solver.Found{Note: tc.note}, found); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Certificates of sites and of careless servers are no answers.
func TestCertificatesOfOthers(t *testing.T) {
	f := start(t)
	for _, host := range []string{"192.0.2.1", six} {
		task := solver.Task{Challenge: challenge(host, key), Now: now}
		f.index.Set(task.Challenge)
		if _, err := f.Solver((&world{server: f.address}).network()).Check(t.Context(), task); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	f.index.Set(challenge("a.example.com", key))
	site := httptest.NewUnstartedServer(http.NotFoundHandler())
	site.TLS = &tls.Config{NextProtos: []string{"acme-tls/1"}}
	site.StartTLS()
	defer site.Close()
	_, err := f.Solver((&world{server: site.Listener.Addr().String()}).network()).Check(t.Context(), solver.Task{Challenge: challenge("a.example.com", key), Now: now})
	if err == nil || !strings.Contains(err.Error(), "alternative names, expected 1") {
		t.Errorf("error %v", err)
	}
}

func TestOff(t *testing.T) {
	s, err := tlsalpn.New(tlsalpn.Config{Settings: tlsalpn.DefaultSettings(), Index: live.NewIndex(), Clock: clocktesting.NewFakeClock(now)})
	if err != nil {
		t.Fatal(err)
	}
	task := solver.Task{Challenge: challenge("a.example.com", key), Now: now}
	solvertest.AssertError(t, s.Solver((&world{}).network()).Present(t.Context(), task), `acme.tlsALPN01.listen is empty, so nothing answers TLS-ALPN-01 challenges here: set it to an address such as ":443", or to one to which a TCP proxy passes connections for the protocol acme-tls/1`)
	task.Challenge.Spec.Wildcard = true
	solvertest.AssertError(t, start(t).Solver((&world{}).network()).Present(t.Context(), task), "TLS-ALPN-01 cannot prove wildcards: use a solver with dns01")
}

func TestTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	settings := tlsalpn.DefaultSettings()
	settings.Listen = []string{taken.Addr().String()}
	s, err := tlsalpn.New(tlsalpn.Config{Settings: settings, Index: live.NewIndex(), Clock: clocktesting.NewFakeClock(now)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "acme.tlsALPN01.listen[0]: listening on ") {
		t.Errorf("error %v", err)
	}
}

// A client that sends nothing does not keep the server from ending.
func TestSilentClient(t *testing.T) {
	var silent net.Conn
	t.Cleanup(func() { silent.Close() }) // after the server has ended
	f := start(t)
	var err error
	if silent, err = net.Dial("tcp", f.address); err != nil {
		t.Fatal(err)
	}
	f.index.Set(challenge("a.example.com", key))
	answered, err := validate(f.address, "a.example.com", "acme-tls/1")
	if err != nil {
		t.Fatal(err)
	}
	answered.Close()
}

func TestValidate(t *testing.T) {
	settings := tlsalpn.DefaultSettings()
	solvertest.AssertError(t, settings.Validate(), "")
	settings.Listen = []string{"443"}
	solvertest.AssertError(t, settings.Validate(), `acme.tlsALPN01.listen[0]: "443" is not HOST:PORT, unix:PATH or fd:NAME`)
	solvertest.AssertError(t, tlsalpn.Settings{SelfCheck: "x"}.Validate(), `acme.tlsALPN01.selfCheck: "x" is not one of Full, Local and None`)
}
