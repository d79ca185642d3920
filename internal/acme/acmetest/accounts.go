package acmetest

import (
	"crypto"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/go-jose/go-jose/v4"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

type account struct {
	Status  string   `json:"status"`
	Contact []string `json:"contact,omitempty"`
	path    string
	key     *jose.JSONWebKey
}

type newAccount struct {
	Contact              []string        `json:"contact"`
	TermsOfServiceAgreed bool            `json:"termsOfServiceAgreed"`
	OnlyReturnExisting   bool            `json:"onlyReturnExisting"`
	External             json.RawMessage `json:"externalAccountBinding"`
}

func thumbprint(key *jose.JSONWebKey) string {
	sum, err := key.Thumbprint(crypto.SHA256)
	if err != nil {
		return ""
	}
	return string(sum)
}

func (s *Server) accountOf(key *jose.JSONWebKey) *account {
	for _, a := range s.accounts {
		if thumbprint(a.key) == thumbprint(key) {
			return a
		}
	}
	return nil
}

func (s *Server) newAccount(w http.ResponseWriter, r *request) *failure {
	var asked newAccount
	if err := json.Unmarshal(r.payload, &asked); err != nil {
		return refuse(http.StatusBadRequest, rfc8555.ProblemMalformed, "%v", err)
	}
	code := http.StatusOK
	a := s.accountOf(r.key)
	switch {
	case a != nil && a.Status != rfc8555.StateValid:
		return refuse(http.StatusForbidden, rfc8555.ProblemUnauthorized, "the account is %s", a.Status)
	case a != nil:
	case asked.OnlyReturnExisting:
		return refuse(http.StatusBadRequest, rfc8555.ProblemAccountDoesNotExist, "no account has this key")
	case !asked.TermsOfServiceAgreed:
		return refuse(http.StatusForbidden, rfc8555.ProblemUserActionRequired, "the terms of service have to be agreed to")
	default:
		if problem := s.checkExternal(r, asked.External); problem != nil {
			return problem
		}
		a = &account{Status: rfc8555.StateValid, Contact: asked.Contact, path: fmt.Sprintf("%s%d", pathAccount, s.number()), key: r.key}
		s.accounts[a.path] = a
		code = http.StatusCreated
	}
	w.Header().Set("Location", s.http.URL+a.path)
	s.write(w, code, s.shown(a))
	return nil
}

func (s *Server) shown(a *account) account {
	shown := *a
	if s.options.NoContact {
		shown.Contact = nil
	}
	return shown
}

func (s *Server) checkExternal(r *request, binding json.RawMessage) *failure {
	if s.options.ExternalAccounts == nil {
		return nil
	}
	unauthorized := func(detail string) *failure {
		return refuse(http.StatusForbidden, rfc8555.ProblemUnauthorized, "%s", detail)
	}
	if len(binding) == 0 {
		return refuse(http.StatusForbidden, rfc8555.ProblemExternalAccountRequired, "an external account is required")
	}
	signed, err := jose.ParseSignedJSON(string(binding), []jose.SignatureAlgorithm{jose.HS256})
	if err != nil || len(signed.Signatures) != 1 {
		return unauthorized("the external account binding cannot be parsed")
	}
	protected := signed.Signatures[0].Protected
	mac, ok := s.options.ExternalAccounts[protected.KeyID]
	if !ok || protected.ExtraHeaders["url"] != s.http.URL+pathNewAccount || protected.Nonce != "" {
		return unauthorized("unknown external account, or a wrong url")
	}
	payload, err := signed.Verify(mac)
	var bound jose.JSONWebKey
	if err != nil || bound.UnmarshalJSON(payload) != nil || thumbprint(&bound) != thumbprint(r.key) {
		return unauthorized("the external account binding has a wrong MAC or key")
	}
	return nil
}

func (s *Server) serveAccount(w http.ResponseWriter, r *request) *failure {
	if r.URL.Path != r.account.path {
		return refuse(http.StatusForbidden, rfc8555.ProblemUnauthorized, "this is another account")
	}
	var change struct {
		Contact *[]string `json:"contact"`
		Status  string    `json:"status"`
	}
	if len(r.payload) > 0 {
		if err := json.Unmarshal(r.payload, &change); err != nil {
			return refuse(http.StatusBadRequest, rfc8555.ProblemMalformed, "%v", err)
		}
	}
	if change.Contact != nil {
		r.account.Contact = *change.Contact
	}
	if change.Status == rfc8555.StateDeactivated {
		r.account.Status = change.Status
	}
	s.write(w, http.StatusOK, s.shown(r.account))
	return nil
}

func (s *Server) keyChange(w http.ResponseWriter, r *request) *failure {
	malformed := func(format string, args ...any) *failure {
		return refuse(http.StatusBadRequest, rfc8555.ProblemMalformed, format, args...)
	}
	inner, err := jose.ParseSignedJSON(string(r.payload), algorithms)
	if err != nil || len(inner.Signatures) != 1 || inner.Signatures[0].Protected.JSONWebKey == nil {
		return malformed("the inner message cannot be parsed: %v", err)
	}
	protected := inner.Signatures[0].Protected
	payload, err := inner.Verify(protected.JSONWebKey)
	if err != nil || protected.Nonce != "" || protected.ExtraHeaders["url"] != s.http.URL+pathKeyChange {
		return malformed("the inner message has a wrong signature, a nonce or another url: %v", err)
	}
	var change struct {
		Account string          `json:"account"`
		OldKey  jose.JSONWebKey `json:"oldKey"`
	}
	if err := json.Unmarshal(payload, &change); err != nil || s.path(change.Account) != r.account.path || thumbprint(&change.OldKey) != thumbprint(r.account.key) {
		return malformed("the inner message is of another account or key: %v", err)
	}
	if other := s.accountOf(protected.JSONWebKey); other != nil {
		w.Header().Set("Location", s.http.URL+other.path)
		return refuse(http.StatusConflict, rfc8555.ProblemMalformed, "the new key is that of another account")
	}
	r.account.key = protected.JSONWebKey
	s.write(w, http.StatusOK, s.shown(r.account))
	return nil
}
