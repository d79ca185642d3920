package acmetest

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

const (
	pathDirectory     = "/directory"
	pathNewNonce      = "/new-nonce"
	pathNewAccount    = "/new-account"
	pathNewOrder      = "/new-order"
	pathKeyChange     = "/key-change"
	pathRenewalInfo   = "/renewal-info/"
	pathAccount       = "/account/"
	pathOrder         = "/order/"
	pathFinalize      = "/finalize/"
	pathAuthorization = "/authorization/"
	pathChallenge     = "/challenge/"
	pathCertificate   = "/certificate/"
	pathRevokeCert    = "/revoke-cert"
)

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

func (s *Server) path(url string) string { return strings.TrimPrefix(url, s.http.URL) }

// request is a request whose signature was verified.
type request struct {
	*http.Request
	key     *jose.JSONWebKey
	account *account // nil if the message has the key
	payload []byte
}

// failure is a problem with the code of the response.
type failure struct {
	code    int
	problem rfc8555.ProblemDocument
}

func refuse(code int, problem, format string, args ...any) *failure {
	return &failure{code, rfc8555.ProblemDocument{Type: rfc8555.Namespace + problem, Detail: fmt.Sprintf(format, args...)}}
}

// serve answers one request. It first determines the kind of the request, so that the hook
// can answer it.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	call, hook := s.record(r, body)
	var reply *Reply
	if hook != nil {
		reply = hook(call)
	}
	if reply == nil {
		reply = &Reply{}
	}
	if reply.Wait != nil {
		select {
		case <-reply.Wait:
		case <-r.Context().Done():
		}
	}
	answer := httptest.NewRecorder()
	if !reply.Lost && reply.Status == 0 || reply.Acts {
		s.mu.Lock()
		s.answer(answer, r, body)
		s.mu.Unlock()
	}
	if reply.Acted != nil {
		reply.Acted()
	}
	if reply.Lost {
		panic(http.ErrAbortHandler)
	}
	s.send(w, answer, reply)
}

func (s *Server) send(w http.ResponseWriter, answer *httptest.ResponseRecorder, reply *Reply) {
	if reply.Status != 0 {
		answer = s.replaced(reply)
	}
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	for name, values := range reply.Header {
		if values == nil {
			w.Header().Del(name)
			continue
		}
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // the client may be gone
}

func (s *Server) replaced(reply *Reply) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	s.mu.Lock()
	s.addNonce(answer)
	s.mu.Unlock()
	if reply.Problem != nil {
		s.fail(answer, &failure{reply.Status, *problemOf(reply.Problem)})
		return answer
	}
	answer.Header().Set("Content-Type", "text/html")
	answer.WriteHeader(reply.Status)
	answer.Body.WriteString(reply.Body)
	return answer
}

// record stores a request.
func (s *Server) record(r *http.Request, body []byte) (Call, func(Call) *Reply) {
	var payload []byte
	if signed, err := jose.ParseSignedJSON(string(body), algorithms); err == nil {
		payload = signed.UnsafePayloadWithoutVerification()
	}
	call := Call{Kind: kindOf(r, payload), Method: r.Method, URL: s.http.URL + r.URL.Path, Header: r.Header.Clone(), Payload: payload}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count[call.Kind]++
	call.N = s.count[call.Kind]
	s.calls = append(s.calls, call)
	return call, s.options.Hook
}

func kindOf(r *http.Request, payload []byte) Kind {
	for prefix, kind := range map[string]Kind{
		pathDirectory: Directory, pathNewNonce: NewNonce, pathNewOrder: NewOrder, pathKeyChange: KeyChange, pathRenewalInfo: RenewalInfo,
		pathAccount: Account, pathOrder: Order, pathFinalize: Finalize, pathAuthorization: Authorization, pathChallenge: Challenge, pathCertificate: Certificate, pathRevokeCert: RevokeCert,
	} {
		if strings.HasPrefix(r.URL.Path, prefix) {
			return kind
		}
	}
	if r.URL.Path != pathNewAccount {
		return Other
	}
	var asked newAccount
	if json.Unmarshal(payload, &asked) == nil && asked.OnlyReturnExisting {
		return FindAccount
	}
	return NewAccount
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, body []byte) {
	s.addNonce(w)
	switch {
	case r.URL.Path == pathDirectory:
		s.write(w, http.StatusOK, s.directory())
		return
	case r.URL.Path == pathNewNonce:
		w.WriteHeader(http.StatusOK)
		return
	case strings.HasPrefix(r.URL.Path, pathRenewalInfo):
		s.serveRenewalInfo(w, r)
		return
	}
	req, problem := s.verify(r, body)
	if problem == nil {
		problem = s.dispatch(w, req)
	}
	if problem != nil {
		s.fail(w, problem)
	}
}

func (s *Server) dispatch(w http.ResponseWriter, r *request) *failure {
	if (r.URL.Path == pathNewAccount) == (r.account != nil) {
		return refuse(http.StatusBadRequest, rfc8555.ProblemMalformed, "new accounts need the header jwk, everything else kid")
	}
	for prefix, handle := range map[string]func(http.ResponseWriter, *request) *failure{
		pathNewAccount: s.newAccount, pathNewOrder: s.newOrder, pathKeyChange: s.keyChange, pathAccount: s.serveAccount,
		pathOrder: s.serveOrder, pathFinalize: s.finalize, pathAuthorization: s.serveAuthorization,
		pathChallenge: s.serveChallenge, pathCertificate: s.serveCertificate, pathRevokeCert: s.revokeCert,
	} {
		if strings.HasPrefix(r.URL.Path, prefix) {
			return handle(w, r)
		}
	}
	return refuse(http.StatusNotFound, rfc8555.ProblemMalformed, "there is nothing at %s", r.URL.Path)
}

// verify checks the signature, the nonce and the URL of a request.
func (s *Server) verify(r *http.Request, body []byte) (*request, *failure) {
	malformed := func(format string, args ...any) (*request, *failure) {
		return nil, refuse(http.StatusBadRequest, rfc8555.ProblemMalformed, format, args...)
	}
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/jose+json" || r.Header.Get("User-Agent") == "" {
		return malformed("need a POST of application/jose+json with a User-Agent")
	}
	signed, err := jose.ParseSignedJSON(string(body), algorithms)
	if err != nil || len(signed.Signatures) != 1 {
		return malformed("the message cannot be parsed: %v", err)
	}
	protected := signed.Signatures[0].Protected
	if protected.ExtraHeaders["url"] != s.http.URL+r.URL.Path {
		return nil, refuse(http.StatusUnauthorized, rfc8555.ProblemUnauthorized, "the message is for %v", protected.ExtraHeaders["url"])
	}
	if !s.nonces[protected.Nonce] {
		return nil, refuse(http.StatusBadRequest, rfc8555.ProblemBadNonce, "unknown nonce %q", protected.Nonce)
	}
	delete(s.nonces, protected.Nonce)
	req := &request{Request: r, key: protected.JSONWebKey}
	if req.key == nil {
		a, ok := s.accounts[s.path(protected.KeyID)]
		switch {
		case !ok:
			return nil, refuse(http.StatusBadRequest, rfc8555.ProblemAccountDoesNotExist, "unknown account %q", protected.KeyID)
		case a.Status != rfc8555.StateValid:
			return nil, refuse(http.StatusForbidden, rfc8555.ProblemUnauthorized, "the account is %s", a.Status)
		}
		req.account, req.key = a, a.key
	}
	if req.payload, err = signed.Verify(req.key); err != nil {
		return malformed("the signature is wrong: %v", err)
	}
	return req, nil
}

func (s *Server) addNonce(w http.ResponseWriter) {
	nonce := fmt.Sprintf("nonce-%d", s.number())
	s.nonces[nonce] = true
	w.Header().Set("Replay-Nonce", nonce)
}

// ForgetNonces makes the server refuse all nonces that it has given out.
func (s *Server) ForgetNonces() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.nonces)
}

func (s *Server) number() int {
	s.next++
	return s.next
}

func (s *Server) directory() map[string]any {
	o := s.options
	d := map[string]any{"newNonce": s.http.URL + pathNewNonce, "newAccount": s.http.URL + pathNewAccount, "newOrder": s.http.URL + pathNewOrder}
	if !o.NoKeyChange {
		d["keyChange"] = s.http.URL + pathKeyChange
	}
	if !o.NoRevocation {
		d["revokeCert"] = s.http.URL + pathRevokeCert
	}
	if !o.NoRenewalInfo {
		d["renewalInfo"] = strings.TrimSuffix(s.http.URL+pathRenewalInfo, "/")
	}
	meta := map[string]any{"externalAccountRequired": o.ExternalAccounts != nil}
	if o.TermsOfService != "" {
		meta["termsOfService"] = o.TermsOfService
	}
	if o.CAAIdentities != nil {
		meta["caaIdentities"] = o.CAAIdentities
	}
	if o.Profiles != nil {
		meta["profiles"] = o.Profiles
	}
	d["meta"] = meta
	return d
}

func (s *Server) write(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object) // into memory
}

func (s *Server) fail(w http.ResponseWriter, f *failure) {
	w.Header().Set("Content-Type", rfc8555.MediaTypeProblem)
	w.WriteHeader(f.code)
	f.problem.Status = f.code
	_ = json.NewEncoder(w).Encode(f.problem) // into memory
}

// problemOf returns the JSON of a problem without completing it: clients must tolerate
// more than certplane's server sends.
func problemOf(p *rfc8555.Problem) *rfc8555.ProblemDocument {
	if p == nil {
		return nil
	}
	return &rfc8555.ProblemDocument{Type: p.Type, Detail: p.Detail, Status: p.Status, Instance: p.Instance, Subproblems: p.Subproblems}
}
