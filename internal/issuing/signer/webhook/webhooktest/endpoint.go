// Package webhooktest is a signing endpoint for tests.
package webhooktest

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/certplane/certplane/api/signing/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
)

// Answer answers a request over HTTP.
type Answer func(http.ResponseWriter, v1alpha1.SigningRequest)

// Endpoint is an HTTPS endpoint that demands a client certificate and a token.
type Endpoint struct {
	// URL is where to call it.
	URL string
	// CAFile, CertFile, KeyFile and TokenFile are the files that a client
	// needs.
	CAFile, CertFile, KeyFile, TokenFile string
	// Token is the content of TokenFile.
	Token string
	// CA is what it signs with: an intermediate.
	CA *pki.Authority

	tls    *tls.Config
	server *httptest.Server

	mu     sync.Mutex // guards what follows
	answer Answer
	calls  []v1alpha1.SigningRequest
}

// Start runs an endpoint until the test ends. It issues the requested certificates.
func Start(t testing.TB) *Endpoint {
	t.Helper()
	dir := t.TempDir()
	e := &Endpoint{
		CAFile: filepath.Join(dir, "ca.crt"), CertFile: filepath.Join(dir, "client.crt"),
		KeyFile: filepath.Join(dir, "client.key"), TokenFile: filepath.Join(dir, "token"),
		Token: "s3cr3t-" + filepath.Base(dir),
		CA:    NewCA(t),
	}
	e.answer = func(w http.ResponseWriter, request v1alpha1.SigningRequest) {
		Send(t, w, request.Issued(e.Issue(t, request)))
	}
	root := newRoot(t)
	e.NewClient(t, root)
	write(t, e.CAFile, pki.EncodeCertificates(root.Certificate()))
	write(t, e.TokenFile, []byte(e.Token+"\n"))
	e.tls = &tls.Config{
		Certificates: []tls.Certificate{serverCertificate(t, root)},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    x509.NewCertPool(),
	}
	e.tls.ClientCAs.AddCert(root.Certificate())
	e.Up(t)
	t.Cleanup(func() { e.server.Close() })
	return e
}

// Up makes the endpoint reachable, after Down at the same address.
func (e *Endpoint) Up(t testing.TB) {
	t.Helper()
	server := httptest.NewUnstartedServer(e)
	server.TLS = e.tls.Clone()
	if e.server != nil {
		listener, err := net.Listen("tcp", e.server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		server.Listener.Close()
		server.Listener = listener
	}
	server.StartTLS()
	e.server, e.URL = server, server.URL+"/sign"
}

// Down makes the endpoint unreachable.
func (e *Endpoint) Down() { e.server.Close() }

// Answers sets the answer of the endpoint from now on.
func (e *Endpoint) Answers(answer Answer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = answer
}

// Calls returns the requests so far.
func (e *Endpoint) Calls() []v1alpha1.SigningRequest {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls
}

// ServeHTTP implements http.Handler.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request v1alpha1.SigningRequest
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if r.Method != http.MethodPost || r.URL.Path != "/sign" || r.Header.Get("Authorization") != "Bearer "+e.Token {
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	e.mu.Lock()
	e.calls = append(e.calls, request)
	answer := e.answer
	e.mu.Unlock()
	answer(w, request)
}

// Issue makes the certificate that a request asks for, with its chain in PEM.
func (e *Endpoint) Issue(t testing.TB, request v1alpha1.SigningRequest) []byte {
	t.Helper()
	parsed, err := pki.ParseRequest([]byte(request.Request))
	if err != nil {
		t.Error(err)
		return nil
	}
	usages, err := pki.ParseUsages(request.Usages)
	if err != nil {
		t.Error(err)
		return nil
	}
	if request.Certificate != nil {
		order(t, parsed.CertificateRequest, request.Certificate)
	}
	now := time.Now()
	validity := pki.Validity{NotBefore: now, NotAfter: now.Add(time.Duration(request.MaxExpirationSeconds) * time.Second)}
	serial, err := pki.NewSerial(rand.Reader)
	if err != nil {
		t.Error(err)
		return nil
	}
	linted, err := e.CA.Lint(pki.RequestTemplate(parsed.CertificateRequest, usages, validity, serial), pki.Policy{})
	if err != nil {
		t.Error(err)
		return nil
	}
	leaf, err := linted.Sign(t.Context(), pki.Unrecorded, pki.Purpose{})
	if err != nil {
		t.Error(err)
		return nil
	}
	return pki.EncodeCertificates(e.CA.Chain(leaf)...)
}

// order puts what a certificate is to contain into its request.
func order(t testing.TB, request *x509.CertificateRequest, content *v1alpha1.Certificate) {
	t.Helper()
	var sequence pkix.RDNSequence
	if _, err := asn1.Unmarshal(content.Subject, &sequence); err != nil {
		t.Error(err)
	}
	request.RawSubject, request.Subject = content.Subject, pkix.Name{}
	request.Subject.FillFromRDNSequence(&sequence)
	request.DNSNames, request.EmailAddresses = content.DNSNames, content.EmailAddresses
	request.IPAddresses, request.URIs = nil, nil
	for _, text := range content.IPAddresses {
		request.IPAddresses = append(request.IPAddresses, net.ParseIP(text))
	}
	for _, text := range content.URIs {
		uri, err := url.Parse(text)
		if err != nil {
			t.Error(err)
			return
		}
		request.URIs = append(request.URIs, uri)
	}
}

// NewClient puts another client certificate into the files.
func (e *Endpoint) NewClient(t testing.TB, root *pki.Authority) {
	t.Helper()
	key := newKey(t)
	chain, err := root.Issue(pki.UnrecordedSigning, pki.Subject{CommonName: "certplane"}, key.Public(), pki.ClientUsages(), time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := pki.EncodePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, e.CertFile, pki.EncodeCertificates(chain...))
	write(t, e.KeyFile, keyPEM)
}

// Send answers with JSON.
func Send(t testing.TB, w http.ResponseWriter, response *v1alpha1.SigningResponse) {
	w.Header().Set("Content-Type", v1alpha1.ContentType)
	if err := json.NewEncoder(w).Encode(response); err != nil {
		t.Error(err)
	}
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
