package acmeorder

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/expression"
	"github.com/certplane/certplane/internal/policy/names"
)

// Endpoint is a compiled AcmeEndpoint. It is safe for concurrent use.
type Endpoint struct {
	object *v1alpha1.AcmeEndpoint
	set    identifierSet
	rules  []compiledRule
}

type compiledRule struct {
	*expression.Expression
	message string
}

// Name returns the name of the endpoint.
func (e *Endpoint) Name() string { return e.object.Name }

// Spec returns the specification, which must not be modified.
func (e *Endpoint) Spec() *v1alpha1.AcmeEndpointSpec { return &e.object.Spec }

// Object returns the object, which must not be modified.
func (e *Endpoint) Object() *v1alpha1.AcmeEndpoint { return e.object }

// Profile returns the profile with a name, nil if there is none.
func (e *Endpoint) Profile(name string) *v1alpha1.AcmeProfile {
	for i := range e.object.Spec.Profiles {
		if p := &e.object.Spec.Profiles[i]; p.Name == name {
			return p
		}
	}
	return nil
}

// Compile compiles an endpoint, once for all its orders. With errors, the endpoint
// takes no orders.
func Compile(object *v1alpha1.AcmeEndpoint) (*Endpoint, field.ErrorList) {
	var errs field.ErrorList
	ids, path := &object.Spec.Identifiers, field.NewPath("spec", "identifiers")
	e := &Endpoint{object: object, set: compileSet(ids.DNS, ids.IP, path, &errs)}
	env, err := expression.ForOrders()
	if err != nil {
		return nil, append(errs, field.InternalError(path, err))
	}
	for i, rule := range ids.Rules {
		compiled, err := env.Compile(rule.Expression, expression.Bool)
		if err != nil {
			errs = append(errs, field.Invalid(path.Child("rules").Index(i).Child("expression"), rule.Expression, err.Error()))
			continue
		}
		e.rules = append(e.rules, compiledRule{compiled, rule.Message})
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return e, nil
}

// ExternalKey is a compiled AcmeExternalKey. It is safe for concurrent use.
type ExternalKey struct {
	object *v1alpha1.AcmeExternalKey
	// narrows is nil if the key has all identifiers of the endpoint.
	narrows       *identifierSet
	preauthorized struct {
		dns namePatterns
		ip  networks
	}
}

// Object returns the object, which must not be modified.
func (k *ExternalKey) Object() *v1alpha1.AcmeExternalKey { return k.object }

// CompileKey compiles an external key.
func CompileKey(object *v1alpha1.AcmeExternalKey) (*ExternalKey, field.ErrorList) {
	var errs field.ErrorList
	k := &ExternalKey{object: object}
	if ids := object.Spec.Identifiers; ids != nil {
		set := compileSet(ids.DNS, ids.IP, field.NewPath("spec", "identifiers"), &errs)
		k.narrows = &set
	}
	if pre, path := object.Spec.Preauthorized, field.NewPath("spec", "preauthorized"); pre != nil {
		k.preauthorized.dns = parsePatterns(pre.DNS, path.Child("dns"), &errs)
		k.preauthorized.ip = parseNetworks(pre.IP, path.Child("ip"), &errs)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return k, nil
}

// preauthorizes reports whether the key is proof of control of an identifier. A nil or
// revoked key is not.
func (k *ExternalKey) preauthorizes(id identifier) bool {
	switch {
	case k == nil || k.object.Spec.Revoked || k.object.Spec.Preauthorized == nil:
		return false
	case id.address.IsValid():
		return k.preauthorized.ip.has(id.address)
	}
	return (!id.wildcard || k.object.Spec.Preauthorized.Wildcards) && k.preauthorized.dns.has(id.name, id.wildcard)
}

// identifier is a normalised identifier, taken apart.
type identifier struct {
	rfc8555.Identifier
	// name is a DNS name without the "*." of a wildcard.
	name     string
	wildcard bool
	address  netip.Addr
}

// takeApart returns false for identifiers of other types, and for values that are not a
// name or an address.
func takeApart(id rfc8555.Identifier) (identifier, bool) {
	all := identifier{Identifier: id}
	switch id.Type {
	case rfc8555.IdentifierDNS:
		all.name, all.wildcard = names.CutWildcard(strings.ToLower(id.Value))
		return all, names.CheckDNSName(all.name) == nil
	case rfc8555.IdentifierIP:
		var err error
		all.address, err = netip.ParseAddr(id.Value)
		return all, err == nil && !all.address.Is4In6() && all.address.Zone() == ""
	}
	return all, false
}

// CheckIdentifiers decides which names and addresses an account may order (RFC
// 8555 section 7.4). The problem names all that are refused. Nothing is looked up.
func (e *Endpoint) CheckIdentifiers(ids []rfc8555.Identifier, f AccountFacts, profile string, now time.Time) *rfc8555.Problem {
	p, rules := e.checkEach(ids, f, true), e.checkRules(ids, f, profile, now)
	if p == nil {
		return rules
	}
	if rules != nil {
		p.Detail = bounded(p.Detail + "; " + rules.Detail)
	}
	return p
}

func (e *Endpoint) checkEach(ids []rfc8555.Identifier, f AccountFacts, offers bool) *rfc8555.Problem {
	var subs []rfc8555.Subproblem
	for _, id := range ids {
		if kind, detail := e.refusal(id, f.key(), offers); kind != "" {
			subs = append(subs, rfc8555.Subproblem{Type: rfc8555.Namespace + kind, Detail: bounded(detail), Identifier: id})
		}
	}
	return compound(subs, len(ids))
}

// refusal returns the type of the problem, and its detail, of an identifier that
// is refused. With offers, a challenge has to be possible for it.
func (e *Endpoint) refusal(id rfc8555.Identifier, key *ExternalKey, offers bool) (kind, detail string) {
	each, known := takeApart(id)
	if !known || each.address.IsValid() && len(e.set.ipAllow) == 0 || !each.address.IsValid() && len(e.set.dnsAllow) == 0 {
		return rfc8555.ProblemUnsupportedIdentifier, fmt.Sprintf("identifiers of the type %s are not supported here", rfc8555.Quote(id.Type))
	}
	why := ""
	switch {
	case !e.set.has(each):
		why = "is not allowed here"
	case key != nil && key.narrows != nil && !key.narrows.has(each):
		why = "is not allowed for the external account key"
	case each.wildcard && (!e.set.wildcards || key != nil && key.narrows != nil && !key.narrows.wildcards):
		why = "is a wildcard, which is not allowed"
	case offers && !key.preauthorizes(each) && len(e.offered(each)) == 0:
		why = "cannot be proven by any challenge that is offered"
	default:
		return "", ""
	}
	return rfc8555.ProblemRejectedIdentifier, rfc8555.Quote(id.Value) + " " + why
}

// checkRules evaluates the endpoint's rules. A rule that fails with an error refuses.
func (e *Endpoint) checkRules(ids []rfc8555.Identifier, f AccountFacts, profile string, now time.Time) *rfc8555.Problem {
	if len(e.rules) == 0 {
		return nil
	}
	view := &expression.OrderView{
		Account: f.Account.Name, Namespace: f.Account.Spec.ServiceAccount.Namespace, ServiceAccount: f.Account.Spec.ServiceAccount.Name,
		Profile: profile, Now: now,
	}
	if key := f.Account.Spec.ExternalKey; key != nil {
		view.ExternalKey = key.Namespace + "/" + key.Name
	}
	for _, id := range ids {
		each, _ := takeApart(id)
		value := each.name
		if each.address.IsValid() {
			value = id.Value
		}
		view.Identifiers = append(view.Identifiers, expression.OrderedIdentifier{Type: id.Type, Value: value, Wildcard: each.wildcard})
	}
	evaluation := expression.New(expression.View{Order: view}, "endpoint")
	var messages []string
	for _, rule := range e.rules {
		holds, failed := evaluation.Bool(rule.Expression)
		switch {
		case failed != nil:
			messages = append(messages, failed.Message)
		case !holds:
			messages = append(messages, rule.message)
		}
	}
	if len(messages) == 0 {
		return nil
	}
	return rfc8555.NewProblem(400, rfc8555.ProblemRejectedIdentifier, "%s", strings.Join(messages, "; "))
}

// offered returns the types of challenges for an identifier, in the order in which
// they are offered: a wildcard is proven by DNS alone (RFC 8555 section 7.1.3), an
// address never (RFC 8738 section 7).
func (e *Endpoint) offered(id identifier) []string {
	return slices.DeleteFunc(possible(id), func(kind string) bool { return !slices.Contains(e.object.Spec.Challenges.Types, kind) })
}

func possible(id identifier) []string {
	switch {
	case id.wildcard:
		return []string{rfc8555.ChallengeDNS01}
	case id.address.IsValid():
		return []string{rfc8555.ChallengeHTTP01, rfc8555.ChallengeTLSALPN01}
	}
	return []string{rfc8555.ChallengeHTTP01, rfc8555.ChallengeDNS01, rfc8555.ChallengeTLSALPN01}
}

// CheckAgain checks once more, before a finalized order is signed, whether the account may
// have the certificate: endpoint, external key and profile may have changed. Proofs by the
// external key must still be valid.
func (e *Endpoint) CheckAgain(o *v1alpha1.AcmeOrder, f AccountFacts, now time.Time) *rfc8555.Problem {
	if p := e.checkProfile(o.Spec.Profile, f.key()); p != nil {
		return p
	}
	ids := orderedIdentifiers(o)
	if p := e.checkEach(ids, f, false); p != nil {
		return p
	}
	for i := range o.Status.Authorizations {
		a := &o.Status.Authorizations[i]
		id, _ := takeApart(OrderedIdentifier(a))
		if a.Origin == v1alpha1.AcmeOriginPreauthorized && !f.key().preauthorizes(id) {
			return rfc8555.NewProblem(403, rfc8555.ProblemUnauthorized, "the external account key is not proof of control of %s anymore", rfc8555.Quote(id.Value))
		}
	}
	return e.checkRules(ids, f, o.Spec.Profile, now)
}

func orderedIdentifiers(o *v1alpha1.AcmeOrder) []rfc8555.Identifier {
	ids := make([]rfc8555.Identifier, len(o.Spec.Identifiers))
	for i, id := range o.Spec.Identifiers {
		ids[i] = rfc8555.Identifier(id)
	}
	return ids
}
