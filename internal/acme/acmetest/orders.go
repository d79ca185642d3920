package acmetest

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

type identifier struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

type order struct {
	Status         string                   `json:"status"`
	Expires        time.Time                `json:"expires"`
	Identifiers    []identifier             `json:"identifiers"`
	NotAfter       string                   `json:"notAfter,omitempty"`
	Profile        string                   `json:"profile,omitempty"`
	Replaces       string                   `json:"replaces,omitempty"`
	Authorizations []string                 `json:"authorizations"`
	Finalize       string                   `json:"finalize"`
	Certificate    string                   `json:"certificate,omitempty"`
	Error          *rfc8555.ProblemDocument `json:"error,omitempty"`

	path       string
	account    *account
	processing int // how many times it is still shown as processing
	made       string
}

func (s *Server) newOrder(w http.ResponseWriter, r *request) *failure {
	asked := &order{}
	if err := json.Unmarshal(r.payload, asked); err != nil || len(asked.Identifiers) == 0 {
		return refuse(http.StatusBadRequest, rfc8555.ProblemMalformed, "the order has no identifiers, or cannot be parsed: %v", err)
	}
	if _, ok := s.options.Profiles[asked.Profile]; asked.Profile != "" && !ok {
		return refuse(http.StatusBadRequest, rfc8555.ProblemInvalidProfile, "unknown profile %q", asked.Profile)
	}
	o := s.pendingLike(r.account, asked)
	if o == nil {
		if problem := s.checkReplaces(asked); problem != nil {
			return problem
		}
		o = s.addOrder(r.account, asked)
	}
	w.Header().Set("Location", s.http.URL+o.path)
	s.write(w, http.StatusCreated, o)
	return nil
}

func (s *Server) checkReplaces(asked *order) *failure {
	if asked.Replaces == "" {
		return nil
	}
	for _, o := range s.orders {
		if o.Replaces == asked.Replaces && o.Status != rfc8555.StateInvalid {
			return refuse(http.StatusConflict, rfc8555.ProblemAlreadyReplaced, "the certificate %s has been replaced", asked.Replaces)
		}
	}
	return nil
}

// pendingLike returns the order that is used again for an equal one.
func (s *Server) pendingLike(a *account, asked *order) *order {
	for _, o := range s.orders {
		if s.options.ReuseAuthorizations && o.account == a && o.Profile == asked.Profile && slices.Equal(o.Identifiers, asked.Identifiers) &&
			(o.Status == rfc8555.StatePending || o.Status == rfc8555.StateReady) {
			return o
		}
	}
	return nil
}

func (s *Server) addOrder(a *account, asked *order) *order {
	n := s.number()
	o := &order{
		Status: rfc8555.StatePending, Expires: s.options.Now().Add(7 * 24 * time.Hour).Truncate(time.Second),
		Identifiers: asked.Identifiers, NotAfter: asked.NotAfter, Profile: asked.Profile, Replaces: asked.Replaces,
		Finalize: fmt.Sprintf("%s%s%d", s.http.URL, pathFinalize, n), path: fmt.Sprintf("%s%d", pathOrder, n), account: a,
	}
	for _, id := range asked.Identifiers {
		o.Authorizations = append(o.Authorizations, s.http.URL+s.authorizationFor(a, id).path)
	}
	s.orders[o.path] = o
	s.advance(o)
	return o
}

// advance gives an order the state that follows from its authorizations.
func (s *Server) advance(o *order) {
	if o.Status == rfc8555.StateProcessing {
		if o.processing > 0 {
			o.processing--
			return
		}
		o.Status, o.Certificate = rfc8555.StateValid, o.made
	}
	if o.Status != rfc8555.StatePending {
		return
	}
	ready := true
	for _, url := range o.Authorizations {
		switch a := s.authorizations[s.path(url)]; a.Status {
		case rfc8555.StateValid:
		case rfc8555.StatePending:
			ready = false
		default:
			o.Status, o.Error = rfc8555.StateInvalid, a.problem
			return
		}
	}
	if ready {
		o.Status = rfc8555.StateReady
	}
}

func (s *Server) orderAt(r *request, prefix string) (*order, *failure) {
	o, ok := s.orders[pathOrder+strings.TrimPrefix(r.URL.Path, prefix)]
	if !ok || o.account != r.account {
		return nil, refuse(http.StatusNotFound, rfc8555.ProblemMalformed, "unknown order %s", r.URL.Path)
	}
	s.advance(o)
	return o, nil
}

func (s *Server) serveOrder(w http.ResponseWriter, r *request) *failure {
	o, problem := s.orderAt(r, pathOrder)
	if problem != nil {
		return problem
	}
	s.sayWhen(w, o.Status)
	s.write(w, http.StatusOK, o)
	return nil
}

// sayWhen sends Retry-After with objects that are not finished.
func (s *Server) sayWhen(w http.ResponseWriter, status string) {
	if s.options.RetryAfter != "" && (status == rfc8555.StatePending || status == rfc8555.StateProcessing) {
		w.Header().Set("Retry-After", s.options.RetryAfter)
	}
}

func (s *Server) finalize(w http.ResponseWriter, r *request) *failure {
	o, problem := s.orderAt(r, pathFinalize)
	if problem != nil {
		return problem
	}
	if o.Status != rfc8555.StateReady {
		return refuse(http.StatusForbidden, "orderNotReady", "the order is %s", o.Status)
	}
	csr, problem := parseCSR(r.payload, o)
	if problem != nil {
		return problem
	}
	if problem := s.sign(o, csr); problem != nil {
		return problem
	}
	o.Status, o.processing = rfc8555.StateProcessing, s.options.Processing
	if o.processing == 0 {
		s.advance(o)
	}
	w.Header().Set("Location", s.http.URL+o.path)
	s.sayWhen(w, o.Status)
	s.write(w, http.StatusOK, o)
	return nil
}

func parseCSR(payload []byte, o *order) (*x509.CertificateRequest, *failure) {
	bad := func(format string, args ...any) (*x509.CertificateRequest, *failure) {
		return nil, refuse(http.StatusBadRequest, rfc8555.ProblemBadCSR, format, args...)
	}
	var asked struct {
		CSR string `json:"csr"`
	}
	if err := json.Unmarshal(payload, &asked); err != nil {
		return bad("%v", err)
	}
	der, err := base64.RawURLEncoding.DecodeString(asked.CSR)
	if err != nil {
		return bad("%v", err)
	}
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return bad("%v", err)
	}
	if err := csr.CheckSignature(); err != nil {
		return bad("%v", err)
	}
	var got, want []string
	got = append(got, csr.DNSNames...)
	for _, ip := range csr.IPAddresses {
		got = append(got, ip.String())
	}
	for _, id := range o.Identifiers {
		want = append(want, id.Value)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		return bad("the request is for %q, the order for %q", got, want)
	}
	return csr, nil
}

func (s *Server) serveRenewalInfo(w http.ResponseWriter, r *http.Request) {
	start := s.options.Now().Add(60 * 24 * time.Hour)
	end := start.Add(48 * time.Hour)
	if s.options.Renewal != nil {
		start, end = s.options.Renewal(strings.TrimPrefix(r.URL.Path, pathRenewalInfo))
	}
	w.Header().Set("Retry-After", "21600")
	s.write(w, http.StatusOK, map[string]any{
		"suggestedWindow": map[string]any{"start": start.UTC().Format(time.RFC3339), "end": end.UTC().Format(time.RFC3339)},
	})
}
