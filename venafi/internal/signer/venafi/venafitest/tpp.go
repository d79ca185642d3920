// Package venafitest is a server for tests with those calls of TPP's API that
// issuers make. It is made after what vcert sends and reads, not after a real
// server.
package venafitest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/issuing/signer/vault/vaulttest"
	"github.com/certplane/certplane/internal/pki"
)

// The credentials that a server accepts.
const (
	User, Password = "ann", "pass-word-1"
	AccessToken    = "static-token-1"
)

// Server answers like TPP. Change its fields only before the first call, or within
// With.
type Server struct {
	*httptest.Server
	CA *vaulttest.CA

	mu      sync.Mutex // guards what follows
	tokens  map[string]bool
	objects map[string]*object
	calls   []Call
	last    int
	State
}

// State is how the server behaves.
type State struct {
	// Policy is the policy of each zone.
	Policy map[string]any
	// Pending is how many attempts to retrieve a certificate come too early.
	Pending int
	// Life is for how long tokens are granted, in seconds.
	Life int
	// Answer, if not nil, answers a call in place of the server. It reports whether
	// it has.
	Answer func(w http.ResponseWriter, c Call) bool
	// Chain, if not nil, changes a certificate and its issuers.
	Chain func(pem string) string
}

// Call is a call of the API.
type Call struct {
	Method, Path, Token string
	Header              http.Header
	Body                map[string]any
}

// String returns method and path.
func (c Call) String() string { return c.Method + " " + c.Path }

// object is a certificate on the server: there is one by a name, whose latest
// request counts.
type object struct {
	request     string
	end         time.Time
	early       int
	certificate string
	fields      any
}

// Start starts a server for a test.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{
		CA: vaulttest.NewCA(t), tokens: map[string]bool{AccessToken: true}, objects: map[string]*object{},
		State: State{Life: 3600, Policy: Policy()},
	}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // tests break connections
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// Policy returns a policy that permits all names.
func Policy() map[string]any {
	return map[string]any{
		"WildcardsAllowed": true, "SubjAltNameDnsAllowed": true, "SubjAltNameEmailAllowed": true, "SubjAltNameIpAllowed": true, "SubjAltNameUriAllowed": true,
	}
}

// Bundle returns the CA of the server's own certificate, in PEM.
func (s *Server) Bundle() []byte { return pki.EncodeCertificates(s.Certificate()) }

// With changes how the server behaves.
func (s *Server) With(change func(*State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.State)
}

// Revoke makes all tokens invalid.
func (s *Server) Revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
}

// Granted is how many granted tokens are valid.
func (s *Server) Granted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	granted := len(s.tokens)
	if s.tokens[AccessToken] {
		granted--
	}
	return granted
}

// Calls returns the calls until now whose path contains a part.
func (s *Server) Calls(part string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.calls), func(c Call) bool { return !strings.Contains(c.Path, part) })
}

// Finish issues all certificates that are under way.
func (s *Server) Finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.objects {
		o.early = 0
	}
}

// Forget forgets the calls until now.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := Call{Method: r.Method, Path: r.URL.Path, Token: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), Header: r.Header}
	_ = json.NewDecoder(r.Body).Decode(&c.Body) // some calls have none
	s.mu.Lock()
	s.calls = append(s.calls, c)
	answer := s.Answer
	s.mu.Unlock()
	if answer != nil && answer(w, c) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serve(w, c)
}

// serve answers a call. The caller must hold mu.
func (s *Server) serve(w http.ResponseWriter, c Call) {
	if c.Path == "/vedauth/authorize/oauth" {
		s.grant(w, c)
		return
	}
	if !s.tokens[c.Token] {
		Fail(w, http.StatusUnauthorized, map[string]any{"error": "invalid_token", "error_description": "Token is invalid"})
		return
	}
	switch c.String() {
	case "GET /vedauth/authorize/verify":
		JSON(w, map[string]any{"scope": "certificate:manage"})
	case "GET /vedauth/revoke/token":
		delete(s.tokens, c.Token)
	case "GET /vedsdk/":
		_, _ = io.WriteString(w, "Connection OK")
	case "POST /vedsdk/certificates/checkpolicy":
		JSON(w, map[string]any{"Policy": s.Policy})
	case "POST /vedsdk/certificates/reset":
		s.reset(w, c)
	case "POST /vedsdk/certificates/request":
		s.request(w, c)
	case "POST /vedsdk/certificates/retrieve":
		s.retrieve(w, c)
	case "POST /vedsdk/metadata/get":
		s.metadata(w, c)
	default:
		Fail(w, http.StatusNotFound, nil)
	}
}

func (s *Server) grant(w http.ResponseWriter, c Call) {
	if c.Body["username"] != User || c.Body["password"] != Password {
		Fail(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant", "error_description": "Username/password combination not valid"})
		return
	}
	s.last++
	token := fmt.Sprintf("granted-token-%d", s.last)
	s.tokens[token] = true
	JSON(w, map[string]any{"access_token": token, "expires": time.Now().Unix() + int64(s.Life), "scope": c.Body["scope"]})
}

func (s *Server) reset(w http.ResponseWriter, c Call) {
	dn := fmt.Sprint(c.Body["CertificateDN"])
	switch o := s.objects[dn]; {
	case o == nil:
		Fail(w, http.StatusBadRequest, map[string]any{"Error": "CertificateDN: " + dn + " does not exist or you do not have sufficient rights to the object."})
	case o.request == "":
		Fail(w, http.StatusBadRequest, map[string]any{"Error": "Reset is not completed. No reset is required for the certificate."})
	default:
		o.request = ""
		JSON(w, map[string]any{"ProcessingResetCompleted": true})
	}
}

func (s *Server) request(w http.ResponseWriter, c Call) {
	dn := fmt.Sprintf(`%s\%s`, c.Body["PolicyDN"], c.Body["ObjectName"])
	o := s.objects[dn]
	if o == nil {
		o = &object{}
		s.objects[dn] = o
	}
	o.request, o.early, o.certificate, o.fields = fmt.Sprint(c.Body["PKCS10"]), s.Pending, "", c.Body["CustomFields"]
	attributes, _ := c.Body["CASpecificAttributes"].([]any)
	for _, attribute := range attributes {
		pair, _ := attribute.(map[string]any)
		if pair["Name"] == "Specific End Date" {
			o.end, _ = time.Parse(time.RFC3339, fmt.Sprint(pair["Value"]))
		}
	}
	JSON(w, map[string]any{"CertificateDN": dn, "Guid": "{1}"})
}

func (s *Server) retrieve(w http.ResponseWriter, c Call) {
	dn := fmt.Sprint(c.Body["CertificateDN"])
	o := s.objects[dn]
	switch {
	case o == nil || o.request == "" && o.certificate == "":
		Fail(w, http.StatusBadRequest, map[string]any{"Error": "Certificate " + dn + " does not exist or you do not have sufficient rights to the object."})
		return
	case o.request != "" && o.early > 0:
		o.early--
		Status(w, "202 Certificate "+dn+" being processed, Status: Post CSR, Stage: 500.", `{"Stage": 500, "Status": "Post CSR"}`)
		return
	case o.request != "":
		data, err := s.CA.Sign(o.request, time.Until(o.end).String())
		if err != nil {
			Status(w, "500 Certificate "+dn+" has encountered an error while processing, Status: "+err.Error()+", Stage: 500.", `{"Stage": 500}`)
			return
		}
		o.request = ""
		o.certificate = strings.Join(append([]string{data["certificate"].(string)}, data["ca_chain"].([]string)...), "")
	}
	chain := o.certificate
	if s.Chain != nil {
		chain = s.Chain(chain)
	}
	JSON(w, map[string]any{"CertificateData": base64.StdEncoding.EncodeToString([]byte(chain)), "Format": "base64"})
}

// metadata returns the custom fields of an object in their requested form.
func (s *Server) metadata(w http.ResponseWriter, c Call) {
	data := []any{}
	if o := s.objects[fmt.Sprint(c.Body["DN"])]; o != nil {
		fields, _ := o.fields.([]any)
		for _, one := range fields {
			field, _ := one.(map[string]any)
			data = append(data, map[string]any{"Key": map[string]any{"Label": field["Name"]}, "Value": field["Values"]})
		}
	}
	JSON(w, map[string]any{"Data": data})
}

// JSON answers a call.
func JSON(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// Fail answers a call with an error.
func Fail(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if answer != nil {
		_ = json.NewEncoder(w).Encode(answer)
	}
}

// Status answers a call with a status line that contains a given text.
func Status(w http.ResponseWriter, line, body string) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer connection.Close()
	_, _ = fmt.Fprintf(connection, "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", line, len(body), body)
}
