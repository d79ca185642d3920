package crp

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/approverpolicy"
)

// Decide decides about a request, in the order of the policies' names, which
// must be unique. An error means that it could not be decided: a fact could not
// be found, or spec.request cannot be read. FailedEvent reports it.
func Decide(policies []*Policy, cr *cmv1.CertificateRequest, facts Facts) (Decision, error) {
	sorted := slices.SortedFunc(slices.Values(policies), func(a, b *Policy) int { return cmp.Compare(a.name, b.name) })
	e := evaluation{cr: cr, facts: &knownFacts{Facts: facts}}
	matching, err := e.match(sorted)
	if err != nil {
		return Decision{}, err
	}
	return e.evaluate(matching)
}

// evaluation makes one decision.
type evaluation struct {
	cr    *cmv1.CertificateRequest
	facts *knownFacts
	// missing are the policies that do not apply.
	missing []Considered
	// refusing are the policies that apply and do not permit the request.
	refusing []Considered
	// unreconciled is set if a policy that would apply has no Ready condition.
	unreconciled bool
}

// match returns the policies that select the request and that its requester may
// use. Facts are looked up for all of them before one is evaluated, as in
// approver-policy: whether a lookup fails does not depend on the evaluation.
func (e *evaluation) match(policies []*Policy) ([]*Policy, error) {
	var matching []*Policy
	for _, step := range []func(*Policy) (*Miss, error){e.missesSelector, e.missesLabels, e.missesAccess} {
		matching = nil
		for _, p := range policies {
			switch miss, err := step(p); {
			case err != nil:
				return nil, fmt.Errorf("CertificateRequestPolicy %s: %w", p.name, err)
			case miss != nil:
				e.missing = append(e.missing, Considered{Policy: p.name, Miss: miss})
			default:
				matching = append(matching, p)
			}
		}
		policies = matching
	}
	return matching, nil
}

// The distances of policies that do not apply: one of those with the smallest is
// the nearest.
const (
	distanceReady = iota
	distanceAccess
	distanceSelector
)

func (e *evaluation) missesSelector(p *Policy) (*Miss, error) {
	misses := p.selector.misses(e.cr)
	if len(misses) == 0 {
		return nil, nil
	}
	misses[0].distance = distanceSelector + len(misses)
	return &misses[0], nil
}

func (e *evaluation) missesLabels(p *Policy) (*Miss, error) {
	miss, err := p.selector.missesLabels(e.cr, e.facts)
	if miss != nil {
		miss.distance = distanceSelector
	}
	return miss, err
}

func (e *evaluation) missesAccess(p *Policy) (*Miss, error) {
	allowed, err := e.facts.MayUse(p.name)
	if err != nil {
		return nil, fmt.Errorf("asking whether the requester may use it: %w", err)
	}
	if allowed {
		return nil, nil
	}
	message := fmt.Sprintf("user %q must be allowed to use %s.%s %q in namespace %q",
		e.cr.Spec.Username, approverpolicy.Resource, approverpolicy.GroupName, p.name, e.cr.Namespace)
	return &Miss{Part: PartAccess, Message: message, distance: distanceAccess}, nil
}

func (p *Policy) missesReady() *Miss {
	message := "the policy is not ready"
	switch {
	case p.ready():
		return nil
	case len(p.plugins) > 0:
		message = "the policy has plugins, which do not exist here"
	case !p.state.reconciled:
		message = "the policy has no Ready condition yet"
	}
	return &Miss{Part: PartReady, Message: message, distance: distanceReady}
}

// evaluate returns the result of the matching policies.
func (e *evaluation) evaluate(matching []*Policy) (Decision, error) {
	var c *content
	for _, p := range matching {
		e.unreconciled = e.unreconciled || !p.state.reconciled
		if miss := p.missesReady(); miss != nil {
			e.missing = append(e.missing, Considered{Policy: p.name, Miss: miss})
			continue
		}
		if c == nil {
			var err error
			if c, err = readContent(e.cr); err != nil {
				return Decision{}, err
			}
		}
		violations, err := p.violations(c)
		if err != nil {
			return Decision{}, fmt.Errorf("CertificateRequestPolicy %s: %w", p.name, err)
		}
		if violations == "" {
			return e.complete(approved(p.name), Considered{Policy: p.name}), nil
		}
		e.refusing = append(e.refusing, Considered{Policy: p.name, Violations: violations})
	}
	return e.complete(e.unapproved()), nil
}

func (e *evaluation) unapproved() Decision {
	switch {
	case e.unreconciled:
		return unprocessed(v1alpha1.OutcomeWait, e.nearest())
	case len(e.refusing) > 0:
		return denied(e.refusing)
	}
	return unprocessed(v1alpha1.OutcomeLeave, e.nearest())
}

func (e *evaluation) nearest() *Considered {
	if len(e.missing) == 0 {
		return nil
	}
	return new(slices.MinFunc(e.missing, func(a, b Considered) int {
		return cmp.Or(cmp.Compare(a.Miss.distance, b.Miss.distance), cmp.Compare(a.Policy, b.Policy))
	}))
}

// complete adds what became of the policies.
func (e *evaluation) complete(d Decision, approving ...Considered) Decision {
	d.Considered = slices.Concat(e.missing, e.refusing, approving)
	slices.SortFunc(d.Considered, func(a, b Considered) int { return cmp.Compare(a.Policy, b.Policy) })
	return d
}

// violations returns what the request asks for and the policy does not permit,
// empty if there is nothing.
func (p *Policy) violations(c *content) (string, error) {
	var texts []string
	if c.denied != "" {
		texts = append(texts, c.denied)
	} else if errs := p.allowed.check(c); len(errs) > 0 {
		texts = append(texts, errs.ToAggregate().Error())
	}
	exceeded, err := checkConstraints(p.constraints, c)
	if err != nil {
		return "", err
	}
	if len(exceeded) > 0 {
		texts = append(texts, exceeded.ToAggregate().Error())
	}
	return strings.Join(texts, ", "), nil
}
