package certpolicy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/lru"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

// Set holds all policies and exceptions in force. It never changes, and is safe for
// concurrent use.
type Set struct {
	// policies and exceptions are sorted by name.
	policies   []*Policy
	exceptions []*Exception
	digest     string
	// literal maps full names of signers to policies, patterns are the policies that
	// can be for any signer.
	literal  map[string][]*Policy
	patterns []*Policy
	// named are the signers that policies name in full.
	named map[string]bool
	// limited: a policy has quotas.
	limited bool
	// found caches the last candidates by candidatesKey.
	found *lru.Cache
}

type candidatesKey struct {
	kind   v1alpha1.RequestKind
	signer string
}

// keptCandidates limits the signers in the cache of candidates, because requests may
// name any signer.
const keptCandidates = 256

// NewSet compiles policies and exceptions into a set. It never fails: requests that an
// invalid policy matches wait. The objects are not kept.
func NewSet(policies []*v1alpha1.CertificatePolicy, exceptions []*v1alpha1.CertificatePolicyException) *Set {
	var compiled []*Policy
	for _, p := range policies {
		one, _, _ := Compile(p)
		compiled = append(compiled, one)
	}
	var exempt []*Exception
	for _, x := range exceptions {
		one, _ := CompileException(x)
		exempt = append(exempt, one)
	}
	return SetOf(compiled, exempt)
}

// SetOf returns the set of compiled policies and exceptions. Their names must be
// unique.
func SetOf(policies []*Policy, exceptions []*Exception) *Set {
	s := &Set{policies: slices.Clone(policies), exceptions: slices.Clone(exceptions), literal: map[string][]*Policy{}, named: map[string]bool{}, found: lru.New(keptCandidates)}
	slices.SortFunc(s.policies, func(a, b *Policy) int { return cmp.Compare(a.name, b.name) })
	slices.SortFunc(s.exceptions, func(a, b *Exception) int { return cmp.Compare(a.name, b.name) })
	hash := sha256.New()
	for _, p := range s.policies {
		fmt.Fprintf(hash, "policy %s %s\n", p.name, p.digest)
		if p.spec.EffectiveMode() != v1alpha1.PolicyOff {
			s.index(p)
			s.limited = s.limited || len(p.spec.Quotas) > 0
		}
	}
	for _, x := range s.exceptions {
		fmt.Fprintf(hash, "exception %s %s\n", x.name, x.digest)
	}
	s.digest = "sha256:" + hex.EncodeToString(hash.Sum(nil))
	return s
}

func (s *Set) index(p *Policy) {
	var signers []string
	for _, glob := range p.match.signers {
		if name, isLiteral := glob.Literal(); isLiteral {
			s.named[name] = true
		}
	}
	for _, glob := range p.match.signers {
		name, isLiteral := glob.Literal()
		if !isLiteral {
			s.patterns = append(s.patterns, p)
			return
		}
		signers = append(signers, name)
	}
	if len(p.match.signers) < len(p.spec.Match.Signers) || len(signers) == 0 {
		s.patterns = append(s.patterns, p) // it is not known which signers it is for
		return
	}
	slices.Sort(signers)
	for _, name := range slices.Compact(signers) {
		s.literal[name] = append(s.literal[name], p)
	}
}

// Policies returns all policies, sorted by name.
func (s *Set) Policies() []*Policy { return s.policies }

// Exceptions returns all exceptions, sorted by name.
func (s *Set) Exceptions() []*Exception { return s.exceptions }

// Digest returns the digest of all policies and exceptions.
func (s *Set) Digest() string { return s.digest }

// Names reports whether a policy names a signer in full.
func (s *Set) Names(signer string) bool { return s.named[signer] }

// Policy returns the policy with a name, or nil.
func (s *Set) Policy(name string) *Policy {
	i, found := slices.BinarySearchFunc(s.policies, name, func(p *Policy, name string) int { return cmp.Compare(p.name, name) })
	if !found {
		return nil
	}
	return s.policies[i]
}

// Exception returns the exception with a name, or nil.
func (s *Set) Exception(name string) *Exception {
	i, found := slices.BinarySearchFunc(s.exceptions, name, func(x *Exception, name string) int { return cmp.Compare(x.name, name) })
	if !found {
		return nil
	}
	return s.exceptions[i]
}

// candidates returns the policies in any mode but Off that can be about
// requests of a kind for a signer, sorted by name.
func (s *Set) candidates(kind v1alpha1.RequestKind, signer string) []*Policy {
	key := candidatesKey{kind, signer}
	if known, found := s.found.Get(key); found {
		return known.([]*Policy)
	}
	found := s.find(kind, signer)
	s.found.Add(key, found)
	return found
}

func (s *Set) find(kind v1alpha1.RequestKind, signer string) []*Policy {
	var found []*Policy
	for _, p := range s.literal[signer] {
		if p.matchBroken || p.match.about(kind, signer) {
			found = append(found, p)
		}
	}
	for _, p := range s.patterns {
		if p.matchBroken || p.match.about(kind, signer) {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b *Policy) int { return cmp.Compare(a.name, b.name) })
	return found
}

// Concerns reports whether a policy in any mode but Off can apply to requests of a kind
// for a signer. Otherwise there is nothing to decide.
func (s *Set) Concerns(kind v1alpha1.RequestKind, signer string) bool {
	return len(s.candidates(kind, signer)) > 0
}

// Governs reports whether an enforced policy can be about requests of a kind for
// a signer.
func (s *Set) Governs(kind v1alpha1.RequestKind, signer string) bool {
	return slices.ContainsFunc(s.candidates(kind, signer), enforced)
}

// Needs returns the facts that a decision about a request can read.
func (s *Set) Needs(r *request.Request) Needs {
	var all Needs
	signer := SignerName(*r)
	for _, p := range s.candidates(r.Kind, signer) {
		all.add(p.needs)
	}
	for _, x := range s.exceptions {
		if x.match.about(r.Kind, signer) {
			all.add(x.needs)
		}
	}
	for i := range all.Access {
		all.Access[i].Namespace = r.Namespace
	}
	return all
}

// AllNeeds returns the facts that decisions about any request can read.
func (s *Set) AllNeeds() Needs {
	var all Needs
	for _, p := range s.policies {
		if p.spec.EffectiveMode() != v1alpha1.PolicyOff {
			all.add(p.needs)
		}
	}
	for _, x := range s.exceptions {
		all.add(x.needs)
	}
	return all
}

// And returns the facts that at least one of two decisions can read.
func (n Needs) And(more Needs) Needs {
	n.Access = slices.Clone(n.Access)
	n.add(more)
	return n
}

func (n *Needs) add(more Needs) {
	n.Origin = n.Origin || more.Origin
	n.Namespace = n.Namespace || more.Namespace
	n.Node = n.Node || more.Node
	n.Owner = n.Owner || more.Owner
	n.Pod = n.Pod || more.Pod
	n.Services = n.Services || more.Services
	n.Signer = n.Signer || more.Signer
	n.BuiltIn = n.BuiltIn || more.BuiltIn
	n.Keys, n.Earlier, n.Carried = n.Keys || more.Keys, n.Earlier || more.Earlier, n.Carried || more.Carried
	for _, access := range more.Access {
		if !slices.Contains(n.Access, access) {
			n.Access = append(n.Access, access)
		}
	}
}

// NeedsRequests reports whether a policy in any mode but Off, or an exception, reads
// other stored requests.
func (s *Set) NeedsRequests() bool {
	all := s.AllNeeds()
	return all.requests()
}

// AwaitsRequests reports whether an enforced policy that can be about a request reads
// other requests.
func (s *Set) AwaitsRequests(r *request.Request) bool {
	return slices.ContainsFunc(s.candidates(r.Kind, SignerName(*r)), func(p *Policy) bool { return enforced(p) && p.needs.requests() })
}

func (n *Needs) requests() bool { return n.Keys || n.Earlier }

// NeedsPeople reports whether an enforced policy can require people to approve
// requests of a kind for a signer.
func (s *Set) NeedsPeople(kind v1alpha1.RequestKind, signer string) bool {
	return slices.ContainsFunc(s.candidates(kind, signer), func(p *Policy) bool { return enforced(p) && p.wantsPeople() })
}

// People returns the requirements of all policies. Records of votes contain the groups
// that these name.
func (s *Set) People() []quorum.Requirement {
	var all []quorum.Requirement
	for _, p := range s.policies {
		if p.wantsPeople() {
			all = append(all, p.requirement())
		}
	}
	return all
}

func enforced(p *Policy) bool { return p.spec.EffectiveMode() == v1alpha1.PolicyEnforce }

func (p *Policy) approval() v1alpha1.PolicyApprovalMode {
	if p.spec.Approval == nil || p.spec.Approval.Mode == "" {
		return v1alpha1.ApproveAutomatic
	}
	return p.spec.Approval.Mode
}

func (p *Policy) wantsPeople() bool {
	return p.approval() == v1alpha1.ApprovePeople && p.spec.Approval.People != nil
}

// Overridable reports whether one person can approve instead of all people that the
// policy requires.
func (p *Policy) Overridable() bool { return p.wantsPeople() && p.requirement().Overridable() }

func (p *Policy) requirement() quorum.Requirement {
	return quorum.Requirement{Policy: p.name, Digest: p.digest, People: *p.spec.Approval.People}
}

// SignerName returns the name with which the signers of policies are compared: the
// signer's, or PLURAL.GROUP/NAMESPACE.NAME or PLURAL.GROUP/NAME of an issuer. The
// plural of a kind of another group is guessed as Kubernetes does.
func SignerName(r request.Request) string {
	if r.SignerName != "" || r.Issuer == nil {
		return r.SignerName
	}
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: r.Issuer.Kind})
	name := r.Issuer.Name
	if r.Issuer.Namespace != "" {
		name = r.Issuer.Namespace + "." + name
	}
	return strings.Join([]string{plural.Resource + "." + r.Issuer.Group, name}, "/")
}
