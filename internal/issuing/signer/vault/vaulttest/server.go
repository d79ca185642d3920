// Package vaulttest is a server for tests with the API of Vault.
package vaulttest

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/certplane/certplane/internal/pki"
)

// Server answers like Vault. Change its fields only before the first call, or
// within With.
type Server struct {
	*httptest.Server
	CA *CA

	mu sync.Mutex // guards what follows
	// Tokens are the valid tokens, with whether they may sign.
	tokens map[string]bool
	calls  []Call
	last   int
	// revoked are the serial numbers of revoked certificates.
	revoked []string
	State
}

// State is how the server behaves.
type State struct {
	// Lease is the answer to a login, without the token.
	Lease map[string]any
	// Renewed is the answer to a renewal; nil means Lease.
	Renewed map[string]any
	// Health is the status of sys/health; 0 means 200.
	Health int
	// LoginError, if not empty, is the error of each login.
	LoginError string
	// Forbidden makes the server refuse to sign with new tokens.
	Forbidden bool
	// Answer, if not nil, answers a call in place of the server. It reports
	// whether it has.
	Answer func(w http.ResponseWriter, r *http.Request, c Call) bool
	// Data, if not nil, changes the data of the answer to signing.
	Data func(data map[string]any)
}

// Call is a call of the API.
type Call struct {
	Method, Path, Namespace, Token string
	Header                         http.Header
	// Body is the JSON; Peer the common name in the client certificate.
	Body map[string]any
	Peer string
}

// String returns method and path.
func (c Call) String() string { return c.Method + " " + c.Path }

// Start starts a server for a test.
func Start(t testing.TB) *Server {
	t.Helper()
	s := New(t)
	s.StartTLS()
	return s
}

// New returns a server that is not started.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{CA: NewCA(t), tokens: map[string]bool{}, State: State{Lease: map[string]any{"lease_duration": 3600, "renewable": true}}}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // tests break connections
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// Bundle returns the CA of the server's own certificate, in PEM.
func (s *Server) Bundle() []byte { return pki.EncodeCertificates(s.Certificate()) }

// With changes how the server behaves.
func (s *Server) With(change func(*State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.State)
}

// Allow makes a token valid, and Revoke invalid; Revoke without tokens revokes
// all.
func (s *Server) Allow(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[token] = true
}

// Revoke makes all tokens invalid.
func (s *Server) Revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
}

// Valid returns the number of valid tokens.
func (s *Server) Valid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tokens)
}

// Calls returns the calls until now.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Call(nil), s.calls...)
}

// Called returns the calls so far as texts, except health checks.
func (s *Server) Called() []string {
	var texts []string
	for _, c := range s.Calls() {
		if c.Path != "/v1/sys/health" {
			texts = append(texts, c.String())
		}
	}
	return texts
}

// Count returns the number of calls whose path contains a text.
func (s *Server) Count(path string) int {
	count := 0
	for _, c := range s.Calls() {
		if strings.Contains(c.Path, path) {
			count++
		}
	}
	return count
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := Call{
		Method: r.Method, Path: r.URL.Path, Namespace: r.Header.Get("X-Vault-Namespace"), Token: r.Header.Get("X-Vault-Token"), Header: r.Header,
	}
	if body, _ := io.ReadAll(r.Body); len(body) > 0 {
		if err := json.Unmarshal(body, &c.Body); err != nil {
			c.Body = map[string]any{"broken": string(body)}
		}
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		c.Peer = r.TLS.PeerCertificates[0].Subject.CommonName
	}
	if c.Namespace != "" {
		w.Header().Set("X-Vault-Namespace", c.Namespace)
	}
	s.mu.Lock()
	s.calls = append(s.calls, c)
	state := s.State
	s.mu.Unlock()
	if state.Answer != nil && state.Answer(w, r, c) {
		return
	}
	s.answer(w, c, state)
}

func (s *Server) answer(w http.ResponseWriter, c Call, state State) {
	switch {
	case c.Path == "/v1/sys/health":
		if state.Health != 0 {
			w.WriteHeader(state.Health)
		}
		fmt.Fprint(w, `{"initialized": true}`)
	case state.Health == http.StatusServiceUnavailable:
		Fail(w, http.StatusServiceUnavailable, "Vault is sealed")
	case strings.HasSuffix(c.Path, "/login"):
		s.login(w, state)
	case strings.HasSuffix(c.Path, "/renew-self"):
		s.renew(w, c, state)
	case strings.HasSuffix(c.Path, "/revoke-self"):
		s.mu.Lock()
		delete(s.tokens, c.Token)
		s.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	case strings.HasSuffix(c.Path, "/revoke"):
		s.revokeCertificate(w, c)
	default:
		s.sign(w, c, state)
	}
}

func (s *Server) login(w http.ResponseWriter, state State) {
	if state.LoginError != "" {
		Fail(w, http.StatusBadRequest, state.LoginError)
		return
	}
	s.mu.Lock()
	s.last++
	token := "hvs.token-" + strconv.Itoa(s.last)
	s.tokens[token] = !state.Forbidden
	s.mu.Unlock()
	auth := map[string]any{"client_token": token}
	for name, value := range state.Lease {
		auth[name] = value
	}
	Write(w, map[string]any{"auth": auth})
}

func (s *Server) renew(w http.ResponseWriter, c Call, state State) {
	s.mu.Lock()
	_, valid := s.tokens[c.Token]
	s.mu.Unlock()
	if !valid {
		Fail(w, http.StatusForbidden, "permission denied")
		return
	}
	auth := map[string]any{"client_token": c.Token}
	lease := state.Renewed
	if lease == nil {
		lease = state.Lease
	}
	for name, value := range lease {
		auth[name] = value
	}
	Write(w, map[string]any{"auth": auth})
}

// revokeCertificate answers as Vault does, also for a certificate that is revoked.
func (s *Server) revokeCertificate(w http.ResponseWriter, c Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	serial, _ := c.Body["serial_number"].(string)
	switch {
	case !s.tokens[c.Token]:
		Fail(w, http.StatusForbidden, "permission denied")
		return
	case !slices.Contains(s.revoked, serial):
		s.revoked = append(s.revoked, serial)
	}
	Write(w, map[string]any{"data": map[string]any{"revocation_time": 1700000000, "state": "revoked"}})
}

// Revoked returns the serial numbers of the revoked certificates.
func (s *Server) Revoked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.revoked)
}

func (s *Server) sign(w http.ResponseWriter, c Call, state State) {
	s.mu.Lock()
	may := s.tokens[c.Token]
	s.mu.Unlock()
	if !may {
		Fail(w, http.StatusForbidden, "permission denied")
		return
	}
	csr, _ := c.Body["csr"].(string)
	ttl, _ := c.Body["ttl"].(string)
	data, err := s.CA.Sign(csr, ttl)
	if err != nil {
		Fail(w, http.StatusBadRequest, err.Error())
		return
	}
	if state.Data != nil {
		state.Data(data)
	}
	Write(w, map[string]any{"data": data, "warnings": []string{"the endpoint ignores something"}})
}

// Write writes an answer.
func Write(w http.ResponseWriter, answer any) { _ = json.NewEncoder(w).Encode(answer) }

// Fail writes errors in the form of Vault.
func Fail(w http.ResponseWriter, status int, errors ...string) {
	w.WriteHeader(status)
	Write(w, map[string]any{"errors": errors})
}
