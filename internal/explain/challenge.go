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

// ChallengeExplanation is what is known about a Challenge, in the form for
// machines.
type ChallengeExplanation struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// State is that of the Challenge; empty before it was read from the CA.
	State acmev1.State `json:"state,omitempty"`
	// Verdict is the explanation in one sentence.
	Verdict   string           `json:"verdict"`
	Challenge ChallengeContent `json:"challenge"`
	// Expected is what the CA looks for, and where.
	Expected Expected          `json:"expected"`
	Decision ChallengeDecision `json:"decision"`
	// Solvers are those of the issuer, in their order; none if they are not known.
	Solvers []SolverChoice `json:"solvers,omitempty"`
	Checks  []Check        `json:"checks"`
	// Events are what controllers reported about the Challenge, the latest last.
	Events []Event `json:"events,omitempty"`
	Next   []Step  `json:"next,omitempty"`
}

// ChallengeContent is what is to be validated.
type ChallengeContent struct {
	Created time.Time `json:"created"`
	// Domain is the name or address, with "*." for a wildcard.
	Domain string                   `json:"domain"`
	Type   acmev1.ACMEChallengeType `json:"type"`
	Issuer string                   `json:"issuer"`
	Order  string                   `json:"order,omitempty"`
	// URL and AuthorizationURL are those at the CA.
	URL              string     `json:"url"`
	AuthorizationURL string     `json:"authorizationURL"`
	PresentedAt      *time.Time `json:"presentedAt,omitempty"`
}

// Expected is what a CA looks for. One of URL, Record and Server is set.
type Expected struct {
	// URL is where HTTP-01 looks, Record the name of the TXT record, and Server
	// the address of TLS-ALPN-01.
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

// ChallengeDecision is what the controller does next for a Challenge.
type ChallengeDecision struct {
	// Step is empty if nothing is left to do. Waits after failures are not known.
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
	// order is the Order that controls the Challenge; nil if it does not exist or
	// the caller may not read it, for which orderExists is Unknown.
	order       *acmev1.Order
	orderExists Result
	// holders are the Challenges that have to end before this one can begin.
	holders []*acmev1.Challenge
	// secrets are those that the solver reads.
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

// findHolders looks for what keeps the Challenge from its turn. What it may not
// read, and other namespaces, it leaves out.
func (f *challengeFacts) findHolders(ctx context.Context, api Reader) error {
	if f.next().Step != challenge.Start || challenge.PlaceOf(f.challenge).Limit == 0 {
		return nil
	}
	all, _, err := challengesIn(ctx, api, f.challenge.Namespace)
	f.holders = challenge.Holders(f.challenge, all)
	return err
}

// findSecrets looks for the Secrets that the solver of an Issuer reads. Those of
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

// expected returns what the CA looks for.
func (f *challengeFacts) expected() Expected {
	spec := f.challenge.Spec
	e := Expected{Value: spec.Key, Written: f.written()}
	switch spec.Type {
	case acmev1.ACMEChallengeTypeHTTP01:
		e.URL = "http://" + inURL(spec.DNSName) + rfc8555.HTTPPath + spec.Token
	case certmanager.TypeTLSALPN01:
		e.Server = inURL(spec.DNSName) + ":443"
	case certmanager.TypeDNSAccount01:
		if account := accountOf(f.issuer.Object); account != "" { // otherwise the name is not known
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

// written returns where the solver has written the answer: the name of the
// record, or what it has noted.
func (f *challengeFacts) written() string {
	note := f.challenge.Annotations[challenge.Presented]
	var record struct{ FQDN string }
	if json.Unmarshal([]byte(note), &record) == nil && record.FQDN != "" {
		return record.FQDN
	}
	return note
}

// accountOf returns the URL of the account of an ACME issuer; empty if it is not
// known.
func accountOf(issuer cmv1.GenericIssuer) string {
	if issuer == nil || issuer.GetStatus().ACME == nil {
		return ""
	}
	return issuer.GetStatus().ACME.URI
}
