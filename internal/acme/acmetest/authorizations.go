package acmetest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

type authorization struct {
	Identifier identifier   `json:"identifier"`
	Status     string       `json:"status"`
	Expires    time.Time    `json:"expires"`
	Wildcard   bool         `json:"wildcard,omitempty"`
	Challenges []*challenge `json:"challenges"`

	path    string
	account *account
	problem *rfc8555.ProblemDocument // what the order shows if this one fails
}

type challenge struct {
	URL    string                   `json:"url"`
	Type   string                   `json:"type"`
	Status string                   `json:"status"`
	Token  string                   `json:"token"`
	Error  *rfc8555.ProblemDocument `json:"error,omitempty"`
}

// authorizationFor returns an authorization for an identifier: a new or a valid one.
func (s *Server) authorizationFor(a *account, id identifier) *authorization {
	name, wildcard := strings.CutPrefix(id.Value, "*.")
	for _, known := range s.authorizations {
		if s.options.ReuseAuthorizations && known.account == a && known.Status == rfc8555.StateValid && known.Wildcard == wildcard && known.Identifier.Value == name {
			return known
		}
	}
	n := s.number()
	made := &authorization{
		Identifier: identifier{id.Type, name}, Status: rfc8555.StatePending, Wildcard: wildcard,
		Expires: s.options.Now().Add(7 * 24 * time.Hour).Truncate(time.Second), path: fmt.Sprintf("%s%d", pathAuthorization, n), account: a,
	}
	for i, kind := range s.challengeTypes(id, wildcard) {
		made.Challenges = append(made.Challenges, &challenge{
			URL: fmt.Sprintf("%s%s%d/%d", s.http.URL, pathChallenge, n, i), Type: kind, Status: rfc8555.StatePending,
			Token: fmt.Sprintf("token-%d-%d", n, i),
		})
	}
	if s.options.Authorized {
		made.Status = rfc8555.StateValid
	}
	s.authorizations[made.path] = made
	return made
}

func (s *Server) challengeTypes(id identifier, wildcard bool) []string {
	offered := s.options.ChallengeTypes
	if offered == nil {
		offered = []string{rfc8555.ChallengeHTTP01, rfc8555.ChallengeDNS01, rfc8555.ChallengeTLSALPN01}
	}
	var fit []string
	for _, kind := range offered {
		isDNS := strings.HasPrefix(kind, "dns-")
		if wildcard && !isDNS || id.Type == rfc8555.IdentifierIP && isDNS {
			continue
		}
		fit = append(fit, kind)
	}
	return fit
}

func (s *Server) serveAuthorization(w http.ResponseWriter, r *request) *failure {
	a, ok := s.authorizations[r.URL.Path]
	if !ok || a.account != r.account {
		return refuse(http.StatusNotFound, rfc8555.ProblemMalformed, "unknown authorization %s", r.URL.Path)
	}
	var change struct {
		Status string `json:"status"`
	}
	if len(r.payload) > 0 {
		if err := json.Unmarshal(r.payload, &change); err != nil || change.Status != rfc8555.StateDeactivated {
			return refuse(http.StatusBadRequest, rfc8555.ProblemMalformed, "the only change is to deactivate: %v", err)
		}
		a.Status = change.Status
	}
	for _, c := range a.Challenges {
		if c.Status == rfc8555.StateProcessing {
			s.validate(a, c)
		}
	}
	s.sayWhen(w, a.Status)
	s.write(w, http.StatusOK, a)
	return nil
}

func (s *Server) serveChallenge(w http.ResponseWriter, r *request) *failure {
	a, c := s.challengeAt(s.http.URL + r.URL.Path)
	if c == nil || a.account != r.account {
		return refuse(http.StatusNotFound, rfc8555.ProblemMalformed, "unknown challenge %s", r.URL.Path)
	}
	switch {
	case c.Status == rfc8555.StateProcessing:
		s.validate(a, c)
	case len(r.payload) == 0:
	case a.Status != rfc8555.StatePending:
		return refuse(http.StatusBadRequest, rfc8555.ProblemMalformed, "the authorization is %s", a.Status)
	case c.Status == rfc8555.StatePending:
		c.Status = rfc8555.StateProcessing
		s.validate(a, c)
	}
	w.Header().Set("Link", fmt.Sprintf(`<%s%s>;rel="up"`, s.http.URL, a.path))
	s.sayWhen(w, c.Status)
	s.write(w, http.StatusOK, c)
	return nil
}

func (s *Server) challengeAt(url string) (*authorization, *challenge) {
	for _, a := range s.authorizations {
		for _, c := range a.Challenges {
			if c.URL == url {
				return a, c
			}
		}
	}
	return nil, nil
}

// validate decides about a challenge that was accepted.
func (s *Server) validate(a *authorization, c *challenge) {
	var verdict Verdict
	if decide := s.options.Validate; decide != nil {
		asked := Validation{
			Identifier: rfc8555.Identifier(a.Identifier), Wildcard: a.Wildcard, Type: c.Type, Token: c.Token,
			KeyAuthorization: c.Token + "." + base64.RawURLEncoding.EncodeToString([]byte(thumbprint(a.account.key))),
		}
		s.mu.Unlock() // it may use the server
		verdict = decide(asked)
		s.mu.Lock()
	}
	switch {
	case verdict.Pending:
	case verdict.Problem != nil:
		c.Status, c.Error = rfc8555.StateInvalid, problemOf(verdict.Problem)
		a.Status, a.problem = rfc8555.StateInvalid, c.Error
	default:
		c.Status, a.Status = rfc8555.StateValid, rfc8555.StateValid
	}
}
