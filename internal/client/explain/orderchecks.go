package explain

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/policy/order"
	"github.com/certplane/certplane/internal/rights"
)

// Explain returns the explanation that follows from the facts.
func (f *OrderFacts) Explain() OrderExplanation {
	o := f.Order
	e := OrderExplanation{
		Namespace: o.Namespace, Name: o.Name, UID: string(o.UID), State: o.Status.State,
		Order: f.content(), Names: f.names(), Events: f.Events.List, Next: f.steps(),
	}
	e.Verdict = o.Name + " " + f.verdict()
	if next, known := f.decide(); known {
		e.Decision = decisionOf(next)
	}
	if slowest := f.Slowest(); slowest != nil {
		e.Slowest = slowest.Name
	}
	e.Checks = append(f.checks(e.Names), f.Events.checks()...)
	return e
}

func decisionOf(next order.Step) *OrderDecision {
	d := &OrderDecision{Action: next.Action, Class: next.Class, Reason: next.Reason}
	for _, needs := range next.Create {
		d.Create = append(d.Create, needs.Challenge.Name)
	}
	for _, c := range next.Delete {
		d.Delete = append(d.Delete, c.Name)
	}
	return d
}

func (f *OrderFacts) content() OrderContent {
	o := f.Order
	c := OrderContent{
		Created: o.CreationTimestamp.Time, Issuer: f.Issuer.String(), Names: []string{}, Profile: o.Spec.Profile,
		Replaces: o.Spec.Replaces, Duration: o.Spec.Duration, URL: o.Status.URL,
	}
	if kind, key := f.request(); key.Name != "" {
		c.For = kind.noun + " " + key.Name
	}
	for _, id := range order.NewOrder(o.Spec, f.Now).Identifiers {
		c.Names = append(c.Names, id.Value)
	}
	return c
}

// request returns the request that the Order is for; the name is empty without one.
func (f *OrderFacts) request() (kind, client.ObjectKey) {
	owner := metav1.GetControllerOf(f.Order)
	switch {
	case owner == nil:
		return kind{}, client.ObjectKey{}
	case owner.Kind == cmv1.CertificateRequestKind:
		return certificateRequests, client.ObjectKey{Namespace: f.Order.Namespace, Name: owner.Name}
	default:
		return signingRequests, client.ObjectKey{Name: owner.Name}
	}
}

// names returns the names that the CA validates, each with its Challenge and the choice
// of its solver.
func (f *OrderFacts) names() []OrderName {
	var all []OrderName
	for _, a := range f.Order.Status.Authorizations {
		if a.Identifier == "" {
			continue // not read yet
		}
		n := OrderName{Domain: order.Domain(a), State: a.InitialState}
		if a.InitialState != acmev1.Valid && f.Issuer.Object != nil && f.Issuer.Object.GetSpec().ACME != nil {
			needs, err := order.Require(f.Order, f.Issuer.Object.GetSpec().ACME, a)
			n.Solvers = choices(needs.Choice)
			if err != nil && f.challengeOf(a) == nil {
				n.Reason = err.Error()
			}
		}
		if c := f.challengeOf(a); c != nil {
			n.Challenge, n.Type, n.State, n.Reason = c.Name, c.Spec.Type, cmp.Or(c.Status.State, acmev1.Pending), c.Status.Reason
		}
		all = append(all, n)
	}
	return all
}

// challengeOf returns the Challenge of an authorization, the latest if an earlier one is
// being deleted; nil if none exists.
func (f *OrderFacts) challengeOf(a acmev1.ACMEAuthorization) *acmev1.Challenge {
	var found *acmev1.Challenge
	for _, c := range f.Challenges {
		if c.Spec.AuthorizationURL == a.URL && (found == nil || found.DeletionTimestamp != nil) {
			found = c
		}
	}
	return found
}

func choices(choice order.Choice) []SolverChoice {
	var all []SolverChoice
	for _, c := range choice.Candidates {
		all = append(all, SolverChoice{Index: c.Index, Type: c.Type, Used: c.Lost == order.Chosen, Lost: c.Lost, Text: c.String()})
	}
	return all
}

// verdict returns the rest of a sentence that begins with the Order's name.
func (f *OrderFacts) verdict() string {
	status := f.Order.Status
	switch {
	case f.Order.DeletionTimestamp != nil:
		return "is being deleted, and nothing is done for it"
	case order.IsFailure(status.State):
		return fmt.Sprintf("has failed (%s): %s", status.State, cmp.Or(status.Reason, noReason))
	case f.isDone():
		return "is complete: the CA has issued its certificate"
	}
	next, known := f.decide()
	switch slowest := f.Slowest(); {
	case !known:
		return "is not complete: " + cmp.Or(status.Reason, "you may not read all objects that it depends on")
	case next.Action == order.Await && next.Class == order.WaitsChallenges && slowest != nil:
		return "waits for the CA to validate a name: " + challengeText(slowest, f.Now)
	case next.Action == order.Await, next.Action == order.End:
		return "waits: " + cmp.Or(next.Reason, status.Reason)
	case status.Reason != "":
		return "waits: " + status.Reason
	}
	return f.underWay(next)
}

// underWay describes an Order with a pending step of the controller.
func (f *OrderFacts) underWay(next order.Step) string {
	text := "is under way: " + actions[next.Action]
	if age := f.Now.Sub(f.Order.CreationTimestamp.Time); f.Order.Status.URL == "" && age >= answerGrace {
		text = fmt.Sprintf("is not placed with the CA, and no controller has processed it for %s", duration.HumanDuration(age))
	}
	return text
}

// actions describe the controller's next step.
var actions = map[order.Action]string{
	order.None:               "it is finished",
	order.Await:              "it waits",
	order.Create:             "next, the CA is asked for an order",
	order.Read:               "next, the CA is asked for the state of the order",
	order.ReadAuthorizations: "next, the CA is asked which names it validates, and how",
	order.Recheck:            "next, the CA is asked for all authorizations again",
	order.Plan:               "next, its Challenges are created or deleted",
	order.Finalize:           "next, the CA is sent the certificate request",
	order.Download:           "next, the certificate is read from the CA",
	order.Explain:            "next, the CA is asked why the order is invalid",
	order.End:                "next, it ends as failed",
}

func (f *OrderFacts) checks(names []OrderName) []Check {
	checks := []Check{f.Issuer.check()}
	if !f.isDone() && f.Issuer.Object != nil && f.Issuer.Object.GetSpec().ACME != nil {
		for _, doubt := range order.Doubts(f.Order, f.Issuer.Object.GetSpec().ACME) {
			checks = append(checks, Check{"names", Unknown, "the CA will probably refuse: " + doubt})
		}
	}
	checks = append(checks, f.checkPlaced())
	if len(names) > 0 {
		checks = append(checks, f.checkNames(names))
	}
	if f.ChallengesUnknown != "" {
		checks = append(checks, Check{"challenges", Unknown, f.ChallengesUnknown})
	}
	if next, known := f.decide(); known && !f.isDone() {
		checks = append(checks, Check{"next", Open, strings.TrimPrefix(cmp.Or(next.Reason, actions[next.Action]), "next, ")})
	}
	return checks
}

func (f *OrderFacts) checkPlaced() Check {
	status := f.Order.Status
	switch {
	case order.IsFailure(status.State):
		return Check{"order", No, cmp.Or(status.Reason, string(status.State))}
	case status.URL == "":
		return Check{"order", Open, "the CA was not asked for it yet"}
	case f.isDone():
		return Check{"order", Yes, "the CA has issued the certificate"}
	}
	return Check{"order", Open, fmt.Sprintf("the CA has it, in the state %s", cmp.Or(status.State, acmev1.Pending))}
}

// checkNames checks whether all names are validated, or can be.
func (f *OrderFacts) checkNames(names []OrderName) Check {
	valid := 0
	for _, n := range names {
		switch {
		case order.IsFailure(n.State):
			return Check{"validation", No, fmt.Sprintf("%s: %s", n.Domain, cmp.Or(n.Reason, string(n.State)))}
		case n.State == acmev1.Valid:
			valid++
		case n.Challenge == "" && n.Solvers != nil && !slices.ContainsFunc(n.Solvers, func(s SolverChoice) bool { return s.Used }):
			return Check{"validation", No, fmt.Sprintf("no solver of the issuer can be used for %s", n.Domain)}
		}
	}
	if valid == len(names) {
		return Check{"validation", Yes, "all names are validated"}
	}
	return Check{"validation", Open, fmt.Sprintf("validated names: %d of %d", valid, len(names))}
}

// steps returns the next steps for an Order.
func (f *OrderFacts) steps() []Step {
	var steps []Step
	o, slowest := f.Order, f.Slowest()
	next, known := f.decide()
	switch {
	case o.DeletionTimestamp != nil:
		return nil
	case order.IsFailure(o.Status.State):
		steps = append(steps, Step{Text: "This is final. After fixing the cause, request the certificate again; a Certificate does so automatically after a while."})
		for _, c := range f.Challenges {
			if order.IsFailure(c.Status.State) {
				steps = append(steps, f.explainStep(c))
				break
			}
		}
	case known && next.Missing != nil:
		steps = append(steps, f.solverStep(next.Missing))
	case slowest != nil && known && next.Class != order.WaitsIssuer:
		steps = append(steps, f.explainStep(slowest))
	case known && o.Status.URL == "" && f.Now.Sub(o.CreationTimestamp.Time) >= answerGrace && o.Status.Reason == "" && next.Action == order.Create:
		steps = append(steps, Step{Text: "Orders are processed immediately where their controller runs: 'certplane serve', or 'certplane controllers' with the controller " + rights.ProcessOrders.Name + "."})
	}
	if !f.isDone() {
		steps = append(f.Issuer.steps(f.Query, anotherRequest), steps...)
	}
	if kind, key := f.request(); key.Name != "" {
		steps = append(steps, step("To see everything about the request:", f.explainCommand(kind, key)))
	}
	return steps
}

// solverStep returns the next step for a name without a solver.
func (f *OrderFacts) solverStep(missing *order.SolverError) Step {
	i := f.Issuer
	text := fmt.Sprintf("Give the issuer a solver for %s in spec.acme.solvers; the Order then continues automatically:", missing.Domain)
	if !errors.Is(missing.Err, order.ErrNoSolver) {
		text = fmt.Sprintf("Correct the annotations of the request, and request again; for %s: %v. To see the solvers:", missing.Domain, missing.Err)
		return step(text, f.kubectl(i.inNamespace("get", i.resourceName(), i.Ref.Name, "-o", "jsonpath={.spec.acme.solvers}")...))
	}
	return step(text, f.kubectl(i.inNamespace("edit", i.resourceName(), i.Ref.Name)...))
}

// explainStep returns the step that explains a Challenge.
func (f *OrderFacts) explainStep(c *acmev1.Challenge) Step {
	return step("To see where the answer is expected, and how to look for it:", f.explainCommand(challenges, client.ObjectKeyFromObject(c)))
}
