package apiserver

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"github.com/certplane/certplane/internal/api"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
	"github.com/certplane/certplane/internal/tenant/connections"
)

// guarded is a server whose requests pass the check of client certificates.
type guarded struct {
	*httptest.Server
	index *revocation.Index
	ca    *pki.Authority
	key   crypto.Signer // of all clients
	acts  int
	begun chan struct{} // one for each stream
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	g := &guarded{index: revocation.NewIndex(), begun: make(chan struct{}, 1000)}
	var err error
	if g.key, err = pki.GenerateKey(pki.ECDSAP256); err != nil {
		t.Fatal(err)
	}
	if g.ca, err = pki.NewRoot(pki.UnrecordedSigning, "clients", g.key, time.Hour, time.Now()); err != nil {
		t.Fatal(err)
	}
	cas, err := dynamiccertificates.NewStaticCAContent("clients", pki.EncodeCertificates(g.ca.Certificate()))
	if err != nil {
		t.Fatal(err)
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener := connections.Listen(inner, connections.Config{})
	guard, err := newRevokedClients(g.index, cas, listener)
	if err != nil {
		t.Fatal(err)
	}
	config := genericapiserver.NewConfig(api.NewCodecs(true))
	config.RequestInfoResolver = genericapiserver.NewRequestInfoResolver(config)
	g.Server = &httptest.Server{
		Listener: listener, EnableHTTP2: true, TLS: &tls.Config{ClientAuth: tls.RequestClientCert},
		Config: &http.Server{Handler: guard.wrap(http.HandlerFunc(g.serve), config)},
	}
	g.StartTLS()
	t.Cleanup(g.Close)
	go guard.run(t.Context())
	return g
}

// serve answers, and then waits for the end of the connection if it is a stream.
func (g *guarded) serve(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, r.Proto)
	if r.URL.Path == "/stream" {
		w.(http.Flusher).Flush()
		g.begun <- struct{}{}
		<-r.Context().Done()
	}
}

// client returns a client with a new certificate.
func (g *guarded) client(t *testing.T, protocol string) (*http.Client, *x509.Certificate) {
	t.Helper()
	chain, err := g.ca.Issue(pki.UnrecordedSigning, pki.Subject{CommonName: "ann"}, g.key.Public(), pki.ClientUsages(), time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	transport := g.Server.Client().Transport.(*http.Transport).Clone()
	transport.TLSClientConfig.Certificates = []tls.Certificate{{Certificate: [][]byte{chain[0].Raw}, PrivateKey: g.key, Leaf: chain[0]}}
	transport.TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	transport.ForceAttemptHTTP2 = protocol == "HTTP/2.0"
	if !transport.ForceAttemptHTTP2 {
		transport.TLSClientConfig.NextProtos = []string{"http/1.1"}
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}, chain[0]
}

func (g *guarded) revoke(cert *x509.Certificate) {
	g.acts++
	g.index.Add(revocation.Act{UID: types.UID(fmt.Sprint(g.acts)), Revision: int64(g.acts)}, []revocation.Entry{revocation.EntryOf(cert, time.Now(), pki.ReasonKeyCompromise)})
}

// get sends a request.
func (g *guarded) get(ctx context.Context, client *http.Client, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, g.URL+path, nil)
	if err != nil {
		return nil, err
	}
	return client.Do(request)
}

// text sends a request, and returns the status and the body of the answer.
func (g *guarded) text(ctx context.Context, t *testing.T, client *http.Client) (code int, body string) {
	t.Helper()
	answer, err := g.get(ctx, client, "/")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(data)
}

var protocols = []string{"HTTP/1.1", "HTTP/2.0"}

// A ticket of TLS from before the revocation gives no access: each request is checked.
func TestRevokedClientResumes(t *testing.T) {
	g := newGuarded(t)
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			client, cert := g.client(t, protocol)
			if code, body := g.text(t.Context(), t, client); code != http.StatusOK || body != protocol {
				t.Fatalf("answered with %d %s", code, body)
			}
			client.CloseIdleConnections()
			g.revoke(cert)
			resumed := false
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				TLSHandshakeDone: func(state tls.ConnectionState, _ error) { resumed = state.DidResume },
			})
			code, body := g.text(ctx, t, client)
			if !resumed || code != http.StatusUnauthorized || !strings.Contains(body, cert.SerialNumber.Text(16)+" was revoked on ") {
				t.Errorf("resumed: %v, answered with %d %s", resumed, code, body)
			}
		})
	}
}

// A revocation counts from the moment at which it is in the index, on open connections too.
func TestEachRevocationCountsAtOnce(t *testing.T) {
	g := newGuarded(t)
	for n := range 1000 {
		client, cert := g.client(t, protocols[n%2])
		if code, body := g.text(t.Context(), t, client); code != http.StatusOK {
			t.Fatalf("before revocation %d, a request is answered with %d %s", n, code, body)
		}
		g.revoke(cert)
		// The connection may be closed meanwhile: that is no access, either.
		if answer, err := g.get(t.Context(), client, "/"); err == nil {
			answer.Body.Close()
			if answer.StatusCode != http.StatusUnauthorized {
				t.Fatalf("after revocation %d, a request is answered with %d", n, answer.StatusCode)
			}
		}
		client.CloseIdleConnections()
	}
}

// A stream has no next request: it ends when its certificate is revoked, also if it begins at
// the same moment.
func TestNoStreamOutlivesItsCertificate(t *testing.T) {
	g := newGuarded(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for n := range 60 {
		client, cert := g.client(t, protocols[n%2])
		begun, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			answer, err := g.get(ctx, client, "/stream")
			close(begun)
			if err == nil {
				_, _ = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
			ended <- ctx.Err()
		}()
		if n%3 > 0 {
			<-begun
		}
		g.revoke(cert)
		if err := <-ended; err != nil {
			t.Fatalf("stream %d goes on", n)
		}
	}
}

// The console calls the API within the process for browsers that have logged in with a
// certificate, over connections that need not have it.
func TestCallsWithinTheProcessEnd(t *testing.T) {
	g := newGuarded(t)
	_, cert := g.client(t, "")
	call := func(path string) *httptest.ResponseRecorder {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		request.TLS = &tls.ConnectionState{HandshakeComplete: true, PeerCertificates: []*x509.Certificate{cert}}
		answer := httptest.NewRecorder()
		fromInside(g.Config.Handler, false).ServeHTTP(answer, request)
		return answer
	}
	ended := make(chan struct{})
	go func() {
		call("/stream")
		close(ended)
	}()
	<-g.begun
	g.revoke(cert)
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("a call goes on")
	}
	if answer := call("/"); answer.Code != http.StatusUnauthorized {
		t.Errorf("the next one is answered with %d", answer.Code)
	}
}
