package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/challenge"
	"github.com/certplane/certplane/internal/policy/order"
)

func (f *challengeFacts) explain() ChallengeExplanation {
	ch := f.challenge
	return ChallengeExplanation{
		Namespace: ch.Namespace, Name: ch.Name, UID: string(ch.UID), State: ch.Status.State,
		Verdict: ch.Name + " " + f.verdict(), Challenge: f.content(), Expected: f.expected(),
		Decision: ChallengeDecision{Step: f.next().Step, Obstacle: challenge.ClassOf(ch)},
		Solvers:  f.solvers(), Checks: append(f.checks(), f.events.checks()...), Events: f.events.List, Next: f.steps(),
	}
}

func (f *challengeFacts) content() ChallengeContent {
	ch := f.challenge
	c := ChallengeContent{
		Created: ch.CreationTimestamp.Time, Domain: challengeDomain(ch), Type: ch.Spec.Type, Issuer: f.issuer.String(),
		URL: ch.Spec.URL, AuthorizationURL: ch.Spec.AuthorizationURL, PresentedAt: InUTC(ch.Status.PresentedAt),
	}
	if f.order != nil {
		c.Order = f.order.Name
	}
	return c
}

func challengeDomain(ch *acmev1.Challenge) string {
	if ch.Spec.Wildcard {
		return "*." + ch.Spec.DNSName
	}
	return ch.Spec.DNSName
}

// challengeText returns a text about a Challenge that others wait for.
func challengeText(ch *acmev1.Challenge, now time.Time) string {
	f := &challengeFacts{Query: Query{Now: now}, challenge: ch}
	return fmt.Sprintf("Challenge %s, %s for %s, %s", ch.Name, ch.Spec.Type, challengeDomain(ch), f.verdict())
}

// verdict returns the rest of a sentence that begins with the Challenge's name.
func (f *challengeFacts) verdict() string {
	ch := f.challenge
	reason := ch.Status.Reason
	next := f.next().Step
	switch {
	case order.IsFailure(ch.Status.State):
		return fmt.Sprintf("has failed (%s): %s", ch.Status.State, cmp.Or(reason, noReason)) + f.remains(next)
	case ch.DeletionTimestamp != nil && next == challenge.CleanUp && challenge.ClassOf(ch) == challenge.ClassCleanUpError:
		return "is being deleted, and waits for its clean-up: " + reason
	case ch.DeletionTimestamp != nil:
		return "is being deleted" + f.remains(next)
	case ch.Status.State == acmev1.Valid:
		return "is valid: the CA has validated " + challengeDomain(ch) + f.remains(next)
	case next == challenge.GiveUp:
		return "is given up, because it is not solved after " + length(challenge.DefaultDeadline) + ": " + cmp.Or(reason, noReason)
	case reason != "":
		return "is not valid yet: " + reason
	}
	return "is not valid yet: " + challengeSteps[next]
}

// remains describes a clean-up that is not done yet.
func (f *challengeFacts) remains(next challenge.Step) string {
	if next == challenge.CleanUp {
		return "; its answer is not removed yet"
	}
	return ""
}

// challengeSteps describe the controller's next step.
var challengeSteps = map[challenge.Step]string{
	challenge.Nothing: "it is finished",
	challenge.Start:   "it waits for its turn: the number of active Challenges is limited",
	challenge.Read:    "next, its state is read from the CA",
	challenge.Present: "next, its answer is presented",
	challenge.Check:   "next, its answer is looked up as the CA would do",
	challenge.Delay:   "it waits before the CA is asked to validate, without a self check",
	challenge.Accept:  "next, the CA is asked to validate",
	challenge.Poll:    "the CA validates it, and is asked for the result",
	challenge.GiveUp:  "next, it is given up",
	challenge.CleanUp: "next, its answer is removed",
	challenge.Close:   "next, it is closed: nothing is presented any more",
}

// solvers returns the reason for the choice of the solver; empty if unknown.
func (f *challengeFacts) solvers() []SolverChoice {
	if f.order == nil || f.issuer.Object == nil || f.issuer.Object.GetSpec().ACME == nil {
		return nil
	}
	for _, a := range f.order.Status.Authorizations {
		if a.URL == f.challenge.Spec.AuthorizationURL {
			needs, _ := order.Require(f.order, f.issuer.Object.GetSpec().ACME, a) // its error means that no solver is used
			return choices(needs.Choice)
		}
	}
	return nil
}

func (f *challengeFacts) checks() []Check {
	ch := f.challenge
	checks := []Check{f.checkOrder(), f.issuer.check()}
	for _, s := range f.secrets {
		checks = append(checks, checkSolverSecret(s))
	}
	if len(f.holders) > 0 {
		checks = append(checks, Check{"turn", Open, fmt.Sprintf("waits until Challenge %s ends: its solver cannot keep both answers", f.holders[0].Name)})
	}
	return append(checks, f.checkPresented(), f.checkValidated(), Check{"next", nextResult(ch), strings.TrimPrefix(challengeSteps[f.next().Step], "next, ")})
}

func nextResult(ch *acmev1.Challenge) Result {
	switch {
	case ch.Status.State == acmev1.Valid:
		return Yes
	case order.IsFailure(ch.Status.State):
		return No
	}
	return Open
}

func (f *challengeFacts) checkOrder() Check {
	switch {
	case f.orderExists == Unknown:
		return Check{"order", Unknown, mayNotRead("get", orders.resource, f.challenge.Namespace)}
	case f.order == nil:
		return Check{"order", No, "the Order that the Challenge is for does not exist"}
	case order.IsFailure(f.order.Status.State):
		return Check{"order", No, fmt.Sprintf("Order %s has failed (%s)", f.order.Name, f.order.Status.State)}
	}
	return Check{"order", Yes, "is for Order " + f.order.Name}
}

func checkSolverSecret(s *secretKey) Check {
	switch s.exists {
	case No:
		return Check{"secret", No, fmt.Sprintf("the solver's Secret %s does not exist", s.secret)}
	case Unknown:
		return Check{"secret", Unknown, mayNotRead("get", "secrets", s.namespace)}
	}
	return Check{"secret", Yes, fmt.Sprintf("the solver's Secret %s exists", s.secret)}
}

func (f *challengeFacts) checkPresented() Check {
	ch := f.challenge
	switch {
	case ch.Status.Presented && ch.Status.PresentedAt != nil:
		return Check{"presented", Yes, "since " + ch.Status.PresentedAt.UTC().Format(time.RFC3339)}
	case ch.Status.Presented:
		return Check{"presented", Yes, "the answer is in place for the CA"}
	case order.IsFinal(ch.Status.State):
		return Check{"presented", Open, "no longer: the Challenge has ended"}
	case challenge.ClassOf(ch) == challenge.ClassPresentError:
		return Check{"presented", No, ch.Status.Reason}
	}
	return Check{"presented", Open, "not yet"}
}

func (f *challengeFacts) checkValidated() Check {
	ch := f.challenge
	switch class := challenge.ClassOf(ch); {
	case ch.Status.State == acmev1.Valid:
		return Check{"validation", Yes, "the CA has validated " + challengeDomain(ch)}
	case order.IsFailure(ch.Status.State), class == challenge.ClassSelfCheck, class == challenge.ClassCA, class == challenge.ClassRateLimited:
		return Check{"validation", No, cmp.Or(ch.Status.Reason, noReason)}
	}
	return Check{"validation", Open, cmp.Or(ch.Status.Reason, "the CA has not validated it yet")}
}

// steps returns the next steps for a Challenge.
func (f *challengeFacts) steps() []Step {
	ch := f.challenge
	var steps []Step
	if !order.IsFinal(ch.Status.State) && ch.DeletionTimestamp == nil {
		steps = f.issuer.steps(f.Query, anotherRequest)
		for _, s := range f.secrets {
			if s.exists == No || challenge.ClassOf(ch) == challenge.ClassPresentError && s.exists == Yes {
				steps = append(steps, step(fmt.Sprintf("The solver reads its credentials in Secret %s; once they are right, it retries automatically. To list its keys, without their values:", s.secret),
					f.kubectl("describe", "secret", "-n", s.namespace, s.secret)))
			}
		}
		steps = append(steps, f.lookUp()...)
	}
	if f.order != nil {
		steps = append(steps, step("To see everything about its Order:", f.explainCommand(orders, client.ObjectKeyFromObject(f.order))))
	}
	return steps
}

// lookUp returns commands that check the place where the CA looks. It skips invalid
// names: otherwise a user who may create Challenges could choose the arguments of these
// commands.
func (f *challengeFacts) lookUp() []Step {
	name, e := f.challenge.Spec.DNSName, f.expected()
	switch {
	case !isHost(name) || !tokens.MatchString(f.challenge.Spec.Token):
		return nil
	case e.URL != "":
		return []Step{step("The CA expects the value at the URL, from the Internet or where it is itself, at each address of the name. To look, best from there:",
			append(digs(name), []string{"curl", "--silent", "--show-error", "--location", "--include", e.URL})...)}
	case e.Server != "":
		return []Step{step("The CA connects with the protocol acme-tls/1, and expects a self-signed certificate for the name. To look, best from where the CA is:",
			append(digs(name), []string{"openssl", "s_client", "-connect", e.Server, "-servername", rfc8555.ServerName(name), "-alpn", "acme-tls/1"})...)}
	case e.Record != "":
		commands := [][]string{{"dig", "+short", "TXT", e.Record}, {"dig", "+trace", "TXT", e.Record}}
		if e.Written != e.Record && isHost(e.Written) {
			commands = append(commands, []string{"dig", "+short", "CNAME", e.Record}, []string{"dig", "+short", "TXT", e.Written})
		}
		return []Step{step("The CA expects a TXT record with the value, at each authoritative server of the zone. To look:", commands...)}
	}
	return nil
}

var (
	hosts  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,253}$`)
	tokens = regexp.MustCompile(`^[A-Za-z0-9_-]*$`)
)

// isHost reports whether a text is an address or looks like a name.
func isHost(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil || hosts.MatchString(text)
}

// digs returns the commands that look up the addresses of a name.
func digs(name string) [][]string {
	if _, err := netip.ParseAddr(name); err == nil {
		return nil
	}
	return [][]string{{"dig", "+short", "A", name}, {"dig", "+short", "AAAA", name}}
}

// inURL returns a name or an address in the form of URLs.
func inURL(host string) string {
	if address, err := netip.ParseAddr(host); err == nil && address.Is6() {
		return "[" + host + "]"
	}
	return host
}
