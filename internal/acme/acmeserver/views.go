package acmeserver

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// accountView is an account as clients see it (RFC 8555 section 7.1.2).
type accountView struct {
	Status                 string          `json:"status"`
	Contact                []string        `json:"contact,omitempty"`
	TermsOfServiceAgreed   bool            `json:"termsOfServiceAgreed,omitempty"`
	ExternalAccountBinding json.RawMessage `json:"externalAccountBinding,omitempty"`
	Orders                 string          `json:"orders"`
}

func (c *call) accountView(a *v1alpha1.AcmeAccount) accountView {
	v := accountView{
		Status: string(a.Status.State), Contact: a.Status.Contacts, TermsOfServiceAgreed: a.Status.Agreed != nil,
		Orders: c.url("acct", a.Name, "orders"),
	}
	if binding := a.Status.ExternalAccountBinding; json.Valid([]byte(binding)) {
		v.ExternalAccountBinding = json.RawMessage(binding)
	}
	return v
}

// orderView is an order as clients see it (RFC 8555 section 7.1.3).
type orderView struct {
	Status         string                   `json:"status"`
	Expires        string                   `json:"expires,omitempty"`
	Identifiers    []rfc8555.Identifier     `json:"identifiers"`
	Profile        string                   `json:"profile,omitempty"`
	NotBefore      string                   `json:"notBefore,omitempty"`
	NotAfter       string                   `json:"notAfter,omitempty"`
	Replaces       string                   `json:"replaces,omitempty"`
	Error          *rfc8555.ProblemDocument `json:"error,omitempty"`
	Authorizations []string                 `json:"authorizations"`
	Finalize       string                   `json:"finalize"`
	Certificate    string                   `json:"certificate,omitempty"`
	Certplane      *waitView                `json:"certplane,omitempty"`
}

// waitView describes what an order waits for. It is not standardized: clients ignore it,
// and people find it in their logs.
type waitView struct {
	Request    string `json:"request,omitempty"`
	WaitingFor string `json:"waitingFor"`
	Message    string `json:"message,omitempty"`
}

func (c *call) orderView(o *v1alpha1.AcmeOrder) orderView {
	v := orderView{
		Status: acmeorder.OrderState(o, c.now), Expires: timeText(o.Status.Expires), Profile: o.Spec.Profile,
		NotBefore: timeText(o.Spec.NotBefore), NotAfter: timeText(o.Spec.NotAfter), Replaces: o.Spec.Replaces,
		Authorizations: []string{}, Finalize: c.url("order", o.Name, "finalize"),
	}
	for _, id := range o.Spec.Identifiers {
		v.Identifiers = append(v.Identifiers, rfc8555.Identifier(id))
	}
	for i := range o.Status.Authorizations {
		v.Authorizations = append(v.Authorizations, c.url("authz", o.Name, strconv.Itoa(i)))
	}
	switch v.Status {
	case rfc8555.StateInvalid:
		v.Error = document(acmeorder.Problem(o, c.now))
	case rfc8555.StateProcessing:
		v.Certplane = waitingFor(o)
	case rfc8555.StateValid:
		if issued := o.Status.Certificate; issued != nil && issued.Chain != "" {
			v.Certificate = c.url("cert", o.Name)
		}
	}
	return v
}

func waitingFor(o *v1alpha1.AcmeOrder) *waitView {
	v := &waitView{WaitingFor: acmeorder.WaitsForApproval}
	if r := o.Status.Request; r != nil {
		v.Request = r.Name
		if r.Namespace != "" {
			v.Request = r.Namespace + "/" + r.Name
		}
	}
	about := v1alpha1.AcmeOrderApproved
	if o.Status.Approval != nil {
		v.WaitingFor, about = acmeorder.WaitsForSigner, v1alpha1.AcmeOrderIssued
	}
	if i := slices.IndexFunc(o.Status.Conditions, func(c metav1.Condition) bool { return c.Type == about }); i >= 0 {
		v.Message = o.Status.Conditions[i].Message
	}
	return v
}

// authorizationView is an authorization as clients see it (RFC 8555 section 7.1.4).
type authorizationView struct {
	Identifier rfc8555.Identifier `json:"identifier"`
	Status     string             `json:"status"`
	Expires    string             `json:"expires,omitempty"`
	Challenges []challengeView    `json:"challenges"`
	Wildcard   bool               `json:"wildcard,omitempty"`
}

func (c *call) authorizationView(o *v1alpha1.AcmeOrder, i int) authorizationView {
	a := &o.Status.Authorizations[i]
	v := authorizationView{
		Identifier: rfc8555.Identifier(a.Identifier), Status: acmeorder.AuthorizationState(a, c.now), Expires: timeText(a.Expires),
		Wildcard: a.Wildcard, Challenges: []challengeView{},
	}
	for _, j := range acmeorder.ShownChallenges(a) {
		v.Challenges = append(v.Challenges, c.challengeView(o, acmeorder.Position{Authorization: i, Challenge: j}))
	}
	return v
}

// challengeView is a challenge as clients see it (RFC 8555 section 7.1.5).
type challengeView struct {
	Type      string                   `json:"type"`
	URL       string                   `json:"url"`
	Status    string                   `json:"status"`
	Token     string                   `json:"token"`
	Validated string                   `json:"validated,omitempty"`
	Error     *rfc8555.ProblemDocument `json:"error,omitempty"`
}

func (c *call) challengeView(o *v1alpha1.AcmeOrder, at acmeorder.Position) challengeView {
	challenge := &o.Status.Authorizations[at.Authorization].Challenges[at.Challenge]
	v := challengeView{
		Type: challenge.Type, URL: c.url("chall", o.Name, strconv.Itoa(at.Authorization), strconv.Itoa(at.Challenge)),
		Status: challenge.State, Token: acmeorder.Token(o, at), Validated: timeText(challenge.Validated),
	}
	if challenge.State != rfc8555.StateValid {
		v.Error = document(acmeorder.Shown(challenge.Error))
	}
	return v
}

// validationRetry returns when a client should look at a challenge that is being
// tried again; zero if it is not.
func validationRetry(c *v1alpha1.AcmeChallenge, now time.Time) time.Duration {
	switch {
	case c.State != rfc8555.StateProcessing:
		return 0
	case c.NextAttempt == nil:
		return time.Second
	}
	return max(time.Second, c.NextAttempt.Sub(now)+time.Second)
}

func document(p *rfc8555.Problem) *rfc8555.ProblemDocument {
	if p == nil {
		return nil
	}
	d := p.Document()
	return &d
}

// timeText returns a time as RFC 3339 has it, in whole seconds and UTC.
func timeText(t *metav1.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}
