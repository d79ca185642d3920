package explain

import (
	"context"
	"encoding/json"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/challenge"
	"github.com/certplane/certplane/internal/policy/order"
)

// ChallengeExplanation is the explanation of a Challenge, for JSON and YAML.
type ChallengeExplanation struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// State is the Challenge's state; empty before it was read from the CA.
	State acmev1.State `json:"state,omitempty"`
	// Verdict is the explanation in one sentence.
	Verdict   string           `json:"verdict"`
	Challenge ChallengeContent `json:"challenge"`
	// Expected is the content that the CA expects, and its place.
	Expected Expected          `json:"expected"`
	Decision ChallengeDecision `json:"decision"`
	// Solvers are the issuer's solvers, in their order; empty if unknown.
	Solvers []SolverChoice `json:"solvers,omitempty"`
	Checks  []Check        `json:"checks"`
	// Events are the reports of controllers about the Challenge, latest last.
	Events []Event `json:"events,omitempty"`
	Next   []Step  `json:"next,omitempty"`
}

// ChallengeContent describes the name to validate.
type ChallengeContent struct {
	Created time.Time `json:"created"`
	// Domain is the name or address, with "*." for a wildcard.
	Domain string                   `json:"domain"`
	Type   acmev1.ACMEChallengeType `json:"type"`
	Issuer string                   `json:"issuer"`
	Order  string                   `json:"order,omitempty"`
	// URL and AuthorizationURL are the URLs at the CA.
	URL              string     `json:"url"`
	AuthorizationURL string     `json:"authorizationURL"`
	PresentedAt      *time.Time `json:"presentedAt,omitempty"`
}

// Expected is the content that a CA expects. One of URL, Record and Server is set.
type Expected struct {
	// URL is the URL of HTTP-01, Record the name of the TXT record, and Server the
	// address of TLS-ALPN-01.
	URL    string `json:"url,omitempty"`
	Record string `json:"record,omitempty"`
	Server string `json:"server,omitempty"`
	// Value is the content of the file or the record. For TLS-ALPN-01, its
	// SHA-256 digest is in the certificate.
	Value string `json:"value,omitempty"`
	// Written is where the solver has written the answer, if it has noted that,
	// such as another name to which a CNAME record leads.
	Written string `json:"written,omitempty"`
}

// ChallengeDecision is the controller's next step for a Challenge.
type ChallengeDecision struct {
	// Step is empty if the Challenge is finished. Waits after failures are unknown.
	Step challenge.Step `json:"step,omitempty"`
	// Obstacle is the kind of obstacle that the Challenge shows.
	Obstacle challenge.Class `json:"obstacle,omitempty"`
}

// Challenge explains one Challenge of an ACME issuer.
func Challenge(ctx context.Context, api Reader, q Query) (ChallengeExplanation, error) {
	ch := &acmev1.Challenge{}
	if err := challenges.get(ctx, api, q, ch); err != nil {
		return ChallengeExplanation{}, err
	}
	f := &challengeFacts{Query: q, challenge: ch}
	if err := f.gather(ctx, api); err != nil {
		return ChallengeExplanation{}, readError("finding out about the Challenge", err)
	}
	return f.explain(), nil
}

// challengeFacts are the API's data about a Challenge.
type challengeFacts struct {
	Query
	challenge *acmev1.Challenge
	issuer    *IssuerFacts
	// order is the Order that controls the Challenge; nil if it does not exist, or if the
	// caller may not read it: orderExists is then Unknown.
	order       *acmev1.Order
	orderExists Result
	// holders are the Challenges that must end before this one can start.
	holders []*acmev1.Challenge
	// secrets are the Secrets that the solver reads.
	secrets []*secretKey
	events  Events
}

func (f *challengeFacts) gather(ctx context.Context, api Reader) error {
	ch := f.challenge
	var err error
	if f.issuer, err = findIssuer(ctx, api, ch.Spec.IssuerRef, ch.Namespace); err != nil {
		return err
	}
	for _, part := range []func(context.Context, Reader) error{f.findOrder, f.findHolders, f.findSecrets} {
		if err := part(ctx, api); err != nil {
			return err
		}
	}
	f.events, err = EventsOf(ctx, api, ch)
	return err
}

func (f *challengeFacts) findOrder(ctx context.Context, api Reader) error {
	f.orderExists = No
	owner := metav1.GetControllerOf(f.challenge)
	if owner == nil || owner.Kind != acmev1.OrderKind {
		return nil
	}
	o := &acmev1.Order{}
	var err error
	if f.orderExists, err = exists(ctx, api, client.ObjectKey{Namespace: f.challenge.Namespace, Name: owner.Name}, o); f.orderExists == Yes {
		f.order = o
	}
	return err
}

// findHolders finds the Challenges that this one waits for. It skips Challenges that it
// may not read, and other namespaces.
func (f *challengeFacts) findHolders(ctx context.Context, api Reader) error {
	if f.next().Step != challenge.Start || challenge.PlaceOf(f.challenge).Limit == 0 {
		return nil
	}
	all, _, err := challengesIn(ctx, api, f.challenge.Namespace)
	f.holders = challenge.Holders(f.challenge, all)
	return err
}

// findSecrets finds the Secrets that the solver of an Issuer reads. Secrets of
// ClusterIssuers are in a namespace that only the controllers know.
func (f *challengeFacts) findSecrets(ctx context.Context, api Reader) error {
	ch := f.challenge
	if f.issuer.Ref.Kind != cmv1.IssuerKind || order.IsFinal(ch.Status.State) {
		return nil
	}
	for _, name := range challenge.SecretNames(&ch.Spec.Solver) {
		s := &secretKey{namespace: ch.Namespace, secret: name, what: "credentials of the solver"}
		if err := s.find(ctx, api); err != nil {
			return err
		}
		f.secrets = append(f.secrets, s)
	}
	return nil
}

// next returns the next step of the controller.
func (f *challengeFacts) next() challenge.Plan {
	return challenge.Situation{
		Challenge: f.challenge, Memory: challenge.Assumed(f.challenge, f.Now), Now: f.Now, Rules: challenge.Rules{Deadline: challenge.DefaultDeadline},
	}.Next()
}

// expected returns the content that the CA expects.
func (f *challengeFacts) expected() Expected {
	spec := f.challenge.Spec
	e := Expected{Value: spec.Key, Written: f.written()}
	switch spec.Type {
	case acmev1.ACMEChallengeTypeHTTP01:
		e.URL = "http://" + inURL(spec.DNSName) + rfc8555.HTTPPath + spec.Token
	case certmanager.TypeTLSALPN01:
		e.Server = inURL(spec.DNSName) + ":443"
	case certmanager.TypeDNSAccount01:
		if account := accountOf(f.issuer.Object); account != "" { // otherwise the name is unknown
			e.Record = rfc8555.RecordName(rfc8555.ChallengeDNSAccount01, spec.DNSName, account)
		}
	case certmanager.TypeDNSPersist01:
		e.Record = rfc8555.RecordName(rfc8555.ChallengeDNSPersist01, spec.DNSName, "")
		e.Value = rfc8555.PersistentRecord(rfc8555.IssuerDomains(spec.Key), accountOf(f.issuer.Object), spec.Wildcard)
	default:
		e.Record = rfc8555.RecordName(certmanager.ProtocolType(spec.Type), spec.DNSName, "")
	}
	return e
}

// written returns the place where the solver has written the answer: the name of the
// record, or the place that it recorded.
func (f *challengeFacts) written() string {
	note := f.challenge.Annotations[challenge.Presented]
	var record struct{ FQDN string }
	if json.Unmarshal([]byte(note), &record) == nil && record.FQDN != "" {
		return record.FQDN
	}
	return note
}

// accountOf returns the URL of the account of an ACME issuer; empty if unknown.
func accountOf(issuer cmv1.GenericIssuer) string {
	if issuer == nil || issuer.GetStatus().ACME == nil {
		return ""
	}
	return issuer.GetStatus().ACME.URI
}
