package admissionwebhook

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/rotation"
	"github.com/certplane/certplane/internal/policy/serving"
	"github.com/certplane/certplane/internal/revocation"
)

// serve runs a server until the test ends. The returned function stop stops it.
func serve(t *testing.T, handler http.Handler) (server *Server, address string, stop func() error) {
	t.Helper()
	return serveWith(t, handler, Clients{})
}

func serveWith(t *testing.T, handler http.Handler, clients Clients) (server *Server, address string, stop func() error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = listener.Addr().String()
	listener.Close()
	server = &Server{Address: address, Handler: handler, Clients: clients}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	t.Cleanup(cancel)
	return server, address, func() error { cancel(); return <-ended }
}

// connect dials until the server accepts a connection.
func connect(t *testing.T, address string) (*tls.Conn, error) {
	t.Helper()
	for {
		connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
		if err == nil || !strings.Contains(err.Error(), "refused") {
			return connection, err
		}
		select {
		case <-t.Context().Done():
			t.Fatal("nobody listens")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Each connection gets the certificate that is in use at that time. Without a
// certificate, connections fail, and the probe reports that.
func TestServerFollowsItsCertificate(t *testing.T) {
	server, address, stop := serve(t, http.NotFoundHandler())
	if _, err := connect(t, address); err == nil || server.Ready(nil) == nil {
		t.Fatal("it serves without a certificate")
	}
	for range 2 {
		served := newCertificate(t)
		server.Use(served)
		connection, err := connect(t, address)
		if err != nil {
			t.Fatal(err)
		}
		if !connection.ConnectionState().PeerCertificates[0].Equal(served.Leaf) || server.Ready(nil) != nil {
			t.Error("it serves another certificate than it was given")
		}
		connection.Close()
	}
	if err := stop(); err != nil {
		t.Errorf("stopped with %v", err)
	}
}

func newCertificate(t *testing.T) *tls.Certificate {
	t.Helper()
	state, _, _, err := serving.Server{Name: "test", Hosts: []string{"localhost"}}.Next(serving.State{}, &rotation.Sightings{}, time.Now(), func(string) pki.Signing { return pki.UnrecordedSigning })
	if err != nil {
		t.Fatal(err)
	}
	return state.Certificate()
}

// A request that is in progress when the server stops is answered.
func TestServerFinishesItsAnswers(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	server, address, stop := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(asked)
		<-answer
		if r.Context().Err() != nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	server.Use(newCertificate(t))
	connection, err := connect(t, address)
	if err != nil {
		t.Fatal(err)
	}
	connection.Close()
	got := make(chan int, 1)
	go func() {
		client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		response, err := client.Get("https://" + address)
		if err != nil {
			got <- 0
			return
		}
		response.Body.Close()
		got <- response.StatusCode
	}()
	<-asked
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	for { // until new connections are refused
		connection, err := net.Dial("tcp", address)
		if err != nil {
			break
		}
		connection.Close()
	}
	close(answer)
	if code := <-got; code != http.StatusOK {
		t.Errorf("the answer is %d", code)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func TestServerNamesTheAddressInUse(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	err = (&Server{Address: listener.Addr().String()}).Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "webhook.bindAddress") {
		t.Error(err)
	}
}

// A review that arrives slowly is soon aborted.
func TestServerWaitsForBodies(t *testing.T) {
	server, address, _ := serve(t, newReviewer(func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		t.Error("decided")
		return nil
	}, nil))
	server.Use(newCertificate(t))
	connection, err := connect(t, address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := io.WriteString(connection, "POST /validate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(connection); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") {
		t.Errorf("%q, %v", answer, err)
	}
}

// authority is a CA of clients.
type authority struct {
	root  *x509.Certificate
	issue func(name string) tls.Certificate
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	caKey, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, caKey.Public(), caKey)
	if err != nil {
		t.Fatal(err)
	}
	root, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	serial := int64(1)
	return authority{root, func(name string) tls.Certificate {
		key, err := pki.GenerateKey(pki.ECDSAP256)
		if err != nil {
			t.Fatal(err)
		}
		serial++
		template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
		der, err := x509.CreateCertificate(rand.Reader, template, root, key.Public(), caKey)
		if err != nil {
			t.Fatal(err)
		}
		return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	}}
}

// If clients have to authenticate, only the named ones may connect.
func TestClients(t *testing.T) {
	authority, other := newAuthority(t), newAuthority(t)
	address := startWith(t, Clients{Roots: func() []*x509.Certificate { return []*x509.Certificate{authority.root} }, Names: []string{"apiserver"}})
	tests := []struct {
		reason       string
		certificates []tls.Certificate
		want         bool
	}{
		{"no certificate", nil, false},
		{"another CA", []tls.Certificate{other.issue("apiserver")}, false},
		{"another name", []tls.Certificate{authority.issue("kubelet")}, false},
		{"the API server", []tls.Certificate{authority.issue("apiserver")}, true},
	}
	for _, tc := range tests {
		client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: tc.certificates}}}
		response, err := client.Get("https://" + address)
		if err == nil {
			response.Body.Close()
		}
		client.CloseIdleConnections()
		if (err == nil) != tc.want {
			t.Errorf("%s: %v", tc.reason, err)
		}
	}
}

// A client is refused once its certificate is revoked, also on a connection that is open; so is
// one below a revoked CA.
func TestRevokedClients(t *testing.T) {
	authority := newAuthority(t)
	index := revocation.NewIndex()
	address := startWith(t, Clients{Roots: func() []*x509.Certificate { return []*x509.Certificate{authority.root} }, Revoked: func(cert *x509.Certificate) error {
		if revoked, ok := index.Certificate(cert); ok {
			return errors.New(revoked.Reason.String())
		}
		return nil
	}})
	get := func(client *http.Client) (int, error) {
		response, err := client.Get("https://" + address)
		if err != nil {
			return 0, err
		}
		defer response.Body.Close()
		_, err = io.Copy(io.Discard, response.Body)
		return response.StatusCode, err
	}
	connected := func(certificate tls.Certificate) *http.Client {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{certificate}}}}
		t.Cleanup(client.CloseIdleConnections)
		return client
	}
	certificate := authority.issue("apiserver")
	leaf, err := x509.ParseCertificate(certificate.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	open := connected(certificate)
	if code, err := get(open); err != nil || code != http.StatusNotFound {
		t.Fatalf("%d, %v", code, err)
	}
	index.Add(revocation.Act{UID: "leaf", Revision: 1}, []revocation.Entry{revocation.EntryOf(leaf, time.Now(), pki.ReasonKeyCompromise)})
	if code, err := get(open); err != nil || code != http.StatusForbidden {
		t.Errorf("on the open connection: %d, %v", code, err)
	}
	if code, err := get(connected(certificate)); err == nil {
		t.Errorf("on another connection: %d", code)
	}
	other := authority.issue("apiserver")
	if code, err := get(connected(other)); err != nil || code != http.StatusNotFound {
		t.Errorf("another certificate: %d, %v", code, err)
	}
	index.Add(revocation.Act{UID: "ca", Revision: 2}, []revocation.Entry{revocation.EntryOf(authority.root, time.Now(), pki.ReasonCACompromise)})
	if code, err := get(connected(other)); err == nil {
		t.Errorf("below a revoked CA: %d", code)
	}
}

func startWith(t *testing.T, clients Clients) (address string) {
	t.Helper()
	server, address, _ := serveWith(t, http.NotFoundHandler(), clients)
	server.Use(newCertificate(t))
	for {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			connection.Close()
			return address
		}
		select {
		case <-t.Context().Done():
			t.Fatal("nobody listens")
		case <-time.After(10 * time.Millisecond):
		}
	}
}
