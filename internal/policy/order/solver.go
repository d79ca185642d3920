package order

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// SolverType returns the type of the challenges that a solver solves, by its
// name in the protocol; "" if the solver is of no known type.
func SolverType(solver *acmev1.ACMEChallengeSolver) string {
	switch {
	case solver.HTTP01 != nil:
		return rfc8555.ChallengeHTTP01
	case solver.DNS01 == nil:
		return ""
	case solver.DNS01.Webhook == nil || solver.DNS01.Webhook.GroupName != certmanager.ReservedGroup:
		return rfc8555.ChallengeDNS01
	}
	switch name := solver.DNS01.Webhook.SolverName; name {
	case rfc8555.ChallengeTLSALPN01, rfc8555.ChallengeDNSAccount01, rfc8555.ChallengeDNSPersist01:
		return name
	}
	return ""
}

// ErrNoSolver means that no solver of the issuer fits.
var ErrNoSolver = errors.New("no configured challenge solvers can be used for this challenge")

// Why is the reason why a solver was not chosen.
type Why string

// The reasons.
const (
	// Chosen: this solver was chosen.
	Chosen Why = ""
	// LostUnknown: the solver is of no known type.
	LostUnknown Why = "UnknownType"
	// LostNotOffered: the CA does not offer challenges of the solver's type.
	LostNotOffered Why = "NotOffered"
	// LostLabels: the Order does not have the labels of the selector.
	LostLabels Why = "LabelsDiffer"
	// LostNames: the name is not among dnsNames of the selector.
	LostNames Why = "NameNotListed"
	// LostZones: the name is in none of the dnsZones of the selector.
	LostZones Why = "OutsideOfZones"
	// LostWeight: the selector of another solver matches more closely.
	LostWeight Why = "LessSpecific"
	// LostOrder: the selector of an earlier solver matches as closely.
	LostOrder Why = "Later"
)

// Candidate is a solver of the issuer, and why it was not chosen.
type Candidate struct {
	// Index is the place in the issuer's list.
	Index int
	// Type is that of SolverType.
	Type string
	Lost Why
	// By is the index of the solver that was preferred, for LostWeight and
	// LostOrder.
	By int
	weights
}

// String describes why the solver was not chosen.
func (c Candidate) String() string {
	at := fmt.Sprintf("spec.acme.solvers[%d] (%s)", c.Index, cmp.Or(c.Type, "of an unknown type"))
	switch c.Lost {
	case Chosen:
		return at + " is used"
	case LostUnknown:
		return at + ": there is no such solver"
	case LostNotOffered:
		return at + ": the CA does not offer this type of challenge for the name"
	case LostLabels:
		return at + ": the Order does not have all labels of selector.matchLabels"
	case LostNames:
		return at + ": the name is not in selector.dnsNames"
	case LostZones:
		return at + ": the name is in none of selector.dnsZones"
	case LostWeight:
		return fmt.Sprintf("%s: the selector of spec.acme.solvers[%d] is more specific", at, c.By)
	default:
		return fmt.Sprintf("%s: spec.acme.solvers[%d] comes earlier and its selector is as specific", at, c.By)
	}
}

// weights measure how closely a selector matches. They are compared in this order.
type weights struct{ names, zones, labels int }

func (w weights) compare(other weights) int {
	return cmp.Or(cmp.Compare(w.names, other.names), cmp.Compare(w.zones, other.zones), cmp.Compare(w.labels, other.labels))
}

// Choice is the solver for one authorization.
type Choice struct {
	// Index is the place of the solver in the issuer's list, -1 if none fits.
	Index int
	// Challenge is the challenge of the CA that it solves.
	Challenge acmev1.ACMEChallenge
	// Candidates are all solvers of the issuer.
	Candidates []Candidate
}

// Choose chooses the solver for a domain, which begins with "*." for wildcards. offered
// are the challenges of its authorization, labels the labels of the Order.
func Choose(solvers []acmev1.ACMEChallengeSolver, domain string, labels map[string]string, offered []acmev1.ACMEChallenge) Choice {
	choice := Choice{Index: -1}
	for i := range solvers {
		candidate := consider(&solvers[i], domain, labels, offered)
		candidate.Index = i
		choice.Candidates = append(choice.Candidates, candidate)
		choice.compare(i)
	}
	if choice.Index >= 0 {
		choice.Challenge, _ = offer(offered, choice.Candidates[choice.Index].Type)
	}
	return choice
}

// compare compares a candidate with the best one so far.
func (c *Choice) compare(i int) {
	next := &c.Candidates[i]
	switch {
	case next.Lost != Chosen:
	case c.Index < 0:
		c.Index = i
	case next.compareTo(c.Candidates[c.Index]) > 0:
		c.displace(i)
	case next.compareTo(c.Candidates[c.Index]) == 0:
		next.Lost, next.By = LostOrder, c.Index
	default:
		next.Lost, next.By = LostWeight, c.Index
	}
}

// displace makes a candidate the best one.
func (c *Choice) displace(by int) {
	before := c.Index
	for i := range c.Candidates[:by] {
		loser := &c.Candidates[i]
		if i == before || loser.By == before && (loser.Lost == LostWeight || loser.Lost == LostOrder) {
			loser.Lost, loser.By = LostWeight, by
		}
	}
	c.Index = by
}

func (c Candidate) compareTo(other Candidate) int { return c.weights.compare(other.weights) }

// consider returns whether a solver fits, regardless of the others.
func consider(solver *acmev1.ACMEChallengeSolver, domain string, labels map[string]string, offered []acmev1.ACMEChallenge) Candidate {
	c := Candidate{Type: SolverType(solver)}
	if c.Type == "" {
		c.Lost = LostUnknown
		return c
	}
	if _, ok := offer(offered, c.Type); !ok {
		c.Lost = LostNotOffered
		return c
	}
	if solver.Selector != nil {
		c.weights, c.Lost = match(solver.Selector, domain, labels)
	}
	return c
}

// offer returns the first challenge of a type.
func offer(offered []acmev1.ACMEChallenge, kind string) (acmev1.ACMEChallenge, bool) {
	i := slices.IndexFunc(offered, func(c acmev1.ACMEChallenge) bool { return c.Type == kind })
	if i < 0 {
		return acmev1.ACMEChallenge{}, false
	}
	return offered[i], true
}

// match compares a selector with a domain and labels: all of its parts that are
// not empty must match.
func match(selector *acmev1.CertificateDNSNameSelector, domain string, labels map[string]string) (weights, Why) {
	for key, value := range selector.MatchLabels {
		if has, ok := labels[key]; !ok || has != value {
			return weights{}, LostLabels
		}
	}
	w := weights{labels: len(selector.MatchLabels)}
	if len(selector.DNSNames) > 0 {
		if !slices.Contains(selector.DNSNames, domain) {
			return weights{}, LostNames
		}
		w.names = 1
	}
	if len(selector.DNSZones) > 0 {
		if w.zones = longestZone(selector.DNSZones, domain); w.zones == 0 {
			return weights{}, LostZones
		}
	}
	return w, Chosen
}

// longestZone returns the number of labels of the longest zone that a domain is
// in; 0 if it is in none.
func longestZone(zones []string, domain string) int {
	longest, whole := 0, "."+strings.ToLower(domain)
	for _, zone := range zones {
		if zone != "" && strings.HasSuffix(whole, "."+strings.ToLower(zone)) {
			longest = max(longest, strings.Count(zone, ".")+1)
		}
	}
	return longest
}
