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
	"github.com/certplane/certplane/internal/cli/policy/requests"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/decisionlog"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/requestkind"
)

// past is a request of the past.
type past struct {
	recorded *decisionlog.Recorded
	// logged is what was decided; nil if nobody knows.
	logged *v1alpha1.PolicyDecision
	// conditions are those of a request as an API stores it.
	conditions []quorum.Condition
	// votesLogged: the log has the approvals of people. Others are looked up.
	votesLogged bool
}

// raw is a request that is not decoded yet.
type raw struct {
	// where is its place, for people.
	where string
	data  []byte
	// decode returns the request. It returns nil for what is none.
	decode func(data []byte) (*past, error)
}

// errNoBody is about an event of an audit log that does not have the request.
var errNoBody = errors.New("has no body")

// inputLine is the part of a line of a decision log that says what the decision
// was about. The decision itself is the larger part.
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

// ofLog decodes a line of a decision log: the decision only if nothing else says
// what it was.
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
		return nil, nil // it is a fact, and no request
	}
	asked, err := (&requests.Options{}).OfJSON(groupOf(head.APIVersion), head.Kind, data)
	if err != nil || asked == nil {
		return nil, err
	}
	return cfg.ofAsked(asked, conditionOutcome(asked), asked.Request.Created), nil
}

// ofAsked returns the past of a request of which nothing else is known.
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

// conditionOutcome returns what was decided about a request by its conditions;
// empty if nothing was.
func conditionOutcome(asked *requests.Asked) v1alpha1.DecisionOutcome {
	approved, denied := false, false
	k := requestkind.Of(asked.Object)
	if k == nil {
		return ""
	}
	for _, c := range k.Conditions(asked.Object) {
		set := c.Status == string(metav1.ConditionTrue) || c.Status == "" // as old clients wrote it
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
