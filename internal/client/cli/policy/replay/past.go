package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/policy/requests"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/decisionlog"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/requestkind"
)

// past is a past request.
type past struct {
	recorded *decisionlog.Recorded
	// logged is the recorded decision; nil if unknown.
	logged *v1alpha1.PolicyDecision
	// conditions are the conditions of a request as stored by the API.
	conditions []quorum.Condition
	// votesLogged is true if the log contains the approvals of people; otherwise they are
	// looked up.
	votesLogged bool
}

// raw is a request that is not decoded yet.
type raw struct {
	// where is its place, as text.
	where string
	data  []byte
	// decode returns the request, or nil for another object.
	decode func(data []byte) (*past, error)
}

// errNoBody reports an event of an audit log without the request's body.
var errNoBody = errors.New("has no body")

// inputLine is the part of a decision log's line with the input of the decision. The
// decision itself is the larger part.
type inputLine struct {
	Time    metav1.Time             `json:"time"`
	Stage   v1alpha1.DecisionStage  `json:"stage"`
	Request v1alpha1.DecidedRequest `json:"request"`
	Facts   []v1alpha1.DecisionFact `json:"facts"`

	Object          *runtime.RawExtension           `json:"object"`
	OwnSigner       *bool                           `json:"ownSigner"`
	BuiltIn         *string                         `json:"builtIn"`
	RequestPolicies *v1alpha1.RequestPoliciesRuling `json:"requestPolicies"`
	Keys            *v1alpha1.StoredKeys            `json:"keys"`
	Earlier         *v1alpha1.EarlierRequests       `json:"earlier"`
	Order           *v1alpha1.ProvenOrder           `json:"order"`
	Patience        *metav1.Duration                `json:"patience"`
	Certificate     []byte                          `json:"certificate"`
	Prospective     []byte                          `json:"prospective"`
	Votes           []v1alpha1.LoggedVote           `json:"votes"`
}

func (l *inputLine) line() *v1alpha1.LoggedDecision {
	return &v1alpha1.LoggedDecision{
		PolicyDecision: v1alpha1.PolicyDecision{Time: l.Time, Stage: l.Stage, Request: l.Request, Facts: l.Facts},
		Object:         l.Object, OwnSigner: l.OwnSigner, BuiltIn: l.BuiltIn, RequestPolicies: l.RequestPolicies, Keys: l.Keys, Earlier: l.Earlier,
		Order: l.Order, Patience: l.Patience, Certificate: l.Certificate, Prospective: l.Prospective, Votes: l.Votes,
	}
}

// ofLog decodes a line of a decision log. It decodes the decision only if the outcome is
// not recorded elsewhere.
func (cfg *Config) ofLog(data []byte) (*past, error) {
	line := &v1alpha1.LoggedDecision{}
	if cfg.Old == nil {
		if err := json.Unmarshal(data, line); err != nil {
			return nil, err
		}
	} else {
		var in inputLine
		if err := json.Unmarshal(data, &in); err != nil {
			return nil, err
		}
		line = in.line()
	}
	recorded, err := decisionlog.Read(line)
	if errors.Is(err, decisionlog.ErrNoObject) {
		return nil, errNoBody
	}
	return &past{recorded: recorded, logged: &line.PolicyDecision, votesLogged: true}, err
}

// ofObject decodes an object as an API stores it.
func (cfg *Config) ofObject(data []byte) (*past, error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, err
	}
	if head.Kind == cmv1.CertificateKind {
		return nil, nil // a fact, not a request
	}
	asked, err := (&requests.Options{}).OfJSON(groupOf(head.APIVersion), head.Kind, data)
	if err != nil || asked == nil {
		return nil, err
	}
	return cfg.ofAsked(asked, conditionOutcome(asked), asked.Request.Created), nil
}

// ofAsked returns the past of a request without further records.
func (cfg *Config) ofAsked(asked *requests.Asked, outcome v1alpha1.DecisionOutcome, at time.Time) *past {
	if at.IsZero() {
		at = cfg.Now()
	}
	if asked.Request.Created.IsZero() {
		asked.Request.Created = at
	}
	p := &past{recorded: &decisionlog.Recorded{Pod: asked.Pod, Input: certpolicy.Input{Request: asked.Request, Time: at, Facts: certpolicy.Facts{Signer: certpolicy.OwnSigner(cfg.OwnSigner)}}}}
	p.conditions = policies.ConditionsOf(asked.Object)
	if outcome != "" {
		p.logged = &v1alpha1.PolicyDecision{Outcome: outcome}
	}
	return p
}

// conditionOutcome returns the decision in a request's conditions; empty if it is
// undecided.
func conditionOutcome(asked *requests.Asked) v1alpha1.DecisionOutcome {
	approved, denied := false, false
	k := requestkind.Of(asked.Object)
	if k == nil {
		return ""
	}
	for _, c := range k.Conditions(asked.Object) {
		set := c.Status == string(metav1.ConditionTrue) || c.Status == "" // old clients left it empty
		approved = approved || set && c.Type == k.Granted
		denied = denied || set && c.Type == requestkind.Denied
	}
	switch {
	case denied:
		return v1alpha1.OutcomeDeny
	case approved:
		return v1alpha1.OutcomeApprove
	}
	return ""
}

// verify reports whether the requester had the key.
func (p *past) verify() error {
	r := &p.recorded.Input.Request
	if r.PKCS10 == nil {
		return nil
	}
	if err := pki.VerifyRequest(r.PKCS10.CertificateRequest); err != nil {
		return fmt.Errorf("verifying the certificate request's signature: %w", err)
	}
	return nil
}
