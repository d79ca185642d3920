package explain

import (
	"context"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/policy/challenge"
	"github.com/certplane/certplane/internal/policy/order"
)

// OrderExplanation is the explanation of an Order, for JSON and YAML.
type OrderExplanation struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// State is the Order's state; empty before the CA has an order.
	State acmev1.State `json:"state,omitempty"`
	// Verdict is the explanation in one sentence.
	Verdict string       `json:"verdict"`
	Order   OrderContent `json:"order"`
	// Decision is the controller's next step; nil if the caller may not read all of its
	// inputs.
	Decision *OrderDecision `json:"decision,omitempty"`
	// Names are the names and addresses that the CA validates, once the CA has listed
	// them.
	Names []OrderName `json:"names,omitempty"`
	// Slowest is the Challenge that the Order waits for longest.
	Slowest string  `json:"slowestChallenge,omitempty"`
	Checks  []Check `json:"checks"`
	// Events are the reports of controllers about the Order, latest last.
	Events []Event `json:"events,omitempty"`
	Next   []Step  `json:"next,omitempty"`
}

// OrderContent is the content of the Order.
type OrderContent struct {
	Created time.Time `json:"created"`
	Issuer  string    `json:"issuer"`
	// For is the request that the Order is for: its kind and name.
	For string `json:"for,omitempty"`
	// Names are the ordered names and addresses.
	Names    []string         `json:"names"`
	Profile  string           `json:"profile,omitempty"`
	Replaces string           `json:"replaces,omitempty"`
	Duration *metav1.Duration `json:"duration,omitempty"`
	// URL is the URL of the order at the CA.
	URL string `json:"url,omitempty"`
}

// OrderDecision is the controller's next step for an Order that it has just read from the
// CA.
type OrderDecision struct {
	Action order.Action `json:"action"`
	// Class and Reason describe what the Order waits for.
	Class  order.Class `json:"class,omitempty"`
	Reason string      `json:"reason,omitempty"`
	// Create and Delete are the names of Challenges.
	Create []string `json:"create,omitempty"`
	Delete []string `json:"delete,omitempty"`
}

// OrderName is a name or an address that the CA validates.
type OrderName struct {
	Domain string `json:"domain"`
	// State is the authorization's state when the CA first returned it, or the
	// Challenge's state.
	State acmev1.State `json:"state"`
	// Challenge is the Challenge, and Type the method of validation.
	Challenge string                   `json:"challenge,omitempty"`
	Type      acmev1.ACMEChallengeType `json:"type,omitempty"`
	Reason    string                   `json:"reason,omitempty"`
	// Solvers are the issuer's solvers in their order, until the name is validated.
	Solvers []SolverChoice `json:"solvers,omitempty"`
}

// SolverChoice is a solver of the issuer, with the reason if it is not used.
type SolverChoice struct {
	// Index is its place in spec.acme.solvers.
	Index int    `json:"index"`
	Type  string `json:"type,omitempty"`
	Used  bool   `json:"used"`
	// Lost is the reason why it is not used; empty for the used one.
	Lost order.Why `json:"lost,omitempty"`
	Text string    `json:"text"`
}

// Order explains one Order of an ACME issuer.
func Order(ctx context.Context, api Reader, q Query) (OrderExplanation, error) {
	o := &acmev1.Order{}
	if err := orders.get(ctx, api, q, o); err != nil {
		return OrderExplanation{}, err
	}
	f, err := gatherOrder(ctx, api, o, q)
	if err != nil {
		return OrderExplanation{}, readError("finding out about the Order", err)
	}
	return f.Explain(), nil
}

// OrderFacts are the API's data about an Order.
type OrderFacts struct {
	Query
	Order  *acmev1.Order
	Issuer *IssuerFacts
	// Challenges are the Challenges that the Order controls; ChallengesUnknown is the
	// reason if they are unknown.
	Challenges        []*acmev1.Challenge
	ChallengesUnknown string
	Events            Events
}

func gatherOrder(ctx context.Context, api Reader, o *acmev1.Order, q Query) (*OrderFacts, error) {
	f := &OrderFacts{Query: q, Order: o}
	var err error
	if f.Issuer, err = findIssuer(ctx, api, o.Spec.IssuerRef, o.Namespace); err != nil {
		return nil, err
	}
	all, unknown, err := challengesIn(ctx, api, o.Namespace)
	if err != nil {
		return nil, err
	}
	f.ChallengesUnknown = unknown
	for _, c := range all {
		if metav1.IsControlledBy(c, o) {
			f.Challenges = append(f.Challenges, c)
		}
	}
	f.Events, err = EventsOf(ctx, api, o)
	return f, err
}

// challengesIn returns the Challenges of a namespace, or the reason if they are unknown.
func challengesIn(ctx context.Context, api Reader, namespace string) (all []*acmev1.Challenge, unknown string, err error) {
	found := &acmev1.ChallengeList{}
	known, err := list(ctx, api, found, client.InNamespace(namespace))
	if known == Unknown {
		unknown = mayNotRead("list", challenges.resource, namespace)
	}
	for i := range found.Items {
		all = append(all, &found.Items[i])
	}
	return all, unknown, err
}

// findOrder returns the facts of the Order for a request, or the reason if they are
// unknown. It returns nil and an empty reason if no Order exists.
func findOrder(ctx context.Context, api Reader, namespace string, uid types.UID, q Query) (f *OrderFacts, unknown string, err error) {
	all := &acmev1.OrderList{}
	known, err := list(ctx, api, all, client.InNamespace(namespace))
	if known == Unknown {
		return nil, mayNotRead("list", orders.resource, namespace), err
	}
	for i := range all.Items {
		if o := &all.Items[i]; err == nil && order.IsOf(o, string(uid)) && o.DeletionTimestamp == nil {
			f, err = gatherOrder(ctx, api, o, q)
			return f, "", err
		}
	}
	return nil, "", err
}

// situation holds the inputs of the controller's decision right after it has read the
// order from the CA.
func (f *OrderFacts) situation() order.Situation {
	s := order.Situation{Order: f.Order, Challenges: f.Challenges, Memory: order.Assumed(f.Order), Now: f.Now, Obstacle: f.obstacle()}
	if s.Obstacle == "" {
		s.Issuer = f.Issuer.Object.GetSpec().ACME
	}
	return s
}

// obstacle returns the reason why the issuer cannot be used; empty if it can.
func (f *OrderFacts) obstacle() string {
	if text := order.IssuerObstacle(order.IssuerOf(f.Order.Namespace, f.Order.Spec.IssuerRef), f.Issuer.Object); text != "" {
		return text
	}
	if accountOf(f.Issuer.Object) == "" {
		return noAccount
	}
	return ""
}

// noAccount is the controllers' message for issuers without an account.
const noAccount = "ACME client for issuer not initialised/available: the issuer has no account yet"

// decide returns the next step of the controller. It is unknown if the caller may not
// read all of its inputs.
func (f *OrderFacts) decide() (step order.Step, known bool) {
	if f.ChallengesUnknown != "" || f.Issuer.Exists == Unknown {
		return order.Step{}, false
	}
	return order.Next(f.situation()), true
}

// Slowest returns the Challenge that the Order waits for longest; nil if it waits for
// none.
func (f *OrderFacts) Slowest() *acmev1.Challenge {
	if f.isDone() {
		return nil
	}
	return challenge.Slowest(f.Challenges, f.Now)
}

// isDone reports whether the Order is in a final state.
func (f *OrderFacts) isDone() bool {
	state := f.Order.Status.State
	return order.IsFailure(state) || state == acmev1.Valid && len(f.Order.Status.Certificate) > 0
}
