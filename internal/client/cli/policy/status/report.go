package status

import (
	"cmp"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/names"
	"github.com/certplane/certplane/internal/policy/protection"
)

// report returns the report, sorted by name.
func (s *state) report(now time.Time) Report {
	r := Report{Server: s.version, Signers: []Signer{}, Waiting: s.waiting, Renewing: s.renewing(), Impersonators: s.impersonators(), Notes: s.notes()}
	for _, name := range s.names() {
		r.Signers = append(r.Signers, s.signer(name))
	}
	slices.SortStableFunc(r.Waiting, func(a, b Waiting) int { return a.Since.Compare(b.Since.Time) })
	for _, p := range s.policies {
		r.propose(protection.Policies, p.Name, p.Status.Conditions)
	}
	for _, x := range s.exceptions {
		r.propose(protection.Exceptions, x.Name, x.Status.Conditions)
		r.Exceptions = append(r.Exceptions, exceptionOf(x, now))
	}
	slices.SortFunc(r.Exceptions, func(a, b Exception) int {
		return cmp.Or(a.NotAfter.Compare(b.NotAfter.Time), cmp.Compare(a.Name, b.Name))
	})
	return r
}

// propose adds the pending changes that people have proposed for an object.
func (r *Report) propose(kind protection.Kind, name string, conditions []metav1.Condition) {
	if c := meta.FindStatusCondition(conditions, v1alpha1.PolicyProposed); c != nil && c.Status == metav1.ConditionTrue {
		r.Proposals = append(r.Proposals, Proposal{kind, name, c.Message})
	}
}

func exceptionOf(x *v1alpha1.CertificatePolicyException, now time.Time) Exception {
	compiled, _ := certpolicy.CompileException(x)
	e := Exception{Name: x.Name, Policies: x.Spec.Policies, Items: x.Spec.Items, NotAfter: x.Spec.NotAfter, Left: compiled.Left(now), Reason: x.Spec.Reason}
	if err := compiled.Err(); err != nil {
		e.Why = err.Error()
	}
	return e
}

// names are the signers that policies name, and those of Kubernetes.
func (s *state) names() []string {
	all := signer.Names()
	for _, p := range s.policies {
		all = append(all, p.Spec.Match.Signers...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (s *state) signer(name string) Signer {
	found := Signer{Name: name}
	var about []*v1alpha1.CertificatePolicy
	for _, p := range s.policies {
		if concerns(p, name) {
			about = append(about, p)
			found.Policies = append(found.Policies, policyOf(p))
		}
	}
	slices.SortFunc(found.Policies, func(a, b Policy) int { return cmp.Compare(a.Name, b.Name) })
	for _, kind := range s.kinds(name, about) {
		found.Requests = append(found.Requests, s.requests(kind, name, about))
	}
	return found
}

// concerns reports whether a policy can match requests for a signer or a pattern of
// signers.
func concerns(p *v1alpha1.CertificatePolicy, name string) bool {
	return slices.ContainsFunc(p.Spec.Match.Signers, func(pattern string) bool {
		glob, err := names.ParseSigner(pattern)
		return pattern == name || err == nil && glob.Match(name)
	})
}

func policyOf(p *v1alpha1.CertificatePolicy) Policy {
	found := Policy{Name: p.Name, Effect: p.Spec.Effect, Mode: p.Spec.EffectiveMode(), Kinds: p.Spec.Match.Kinds, Replaces: p.Spec.Replaces}
	if p.Spec.Approval != nil {
		found.Grants = p.Spec.Approval.Mode
	}
	if p.Spec.Protection != nil {
		found.Protection = protection.Policy{Name: p.Name, People: p.Spec.Protection.People}.Demand()
	}
	ready := meta.FindStatusCondition(p.Status.Conditions, "Ready")
	switch {
	case ready == nil || p.Status.ObservedGeneration != p.Generation:
		found.Why = `the controller "policies" has not processed it yet`
	case ready.Status != metav1.ConditionTrue:
		found.Why = ready.Reason + ": " + ready.Message
	default:
		found.Ready = true
	}
	return found
}

// everyKind are the kinds of requests.
var everyKind = []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests, v1alpha1.PodCertificateRequests, v1alpha1.CertificateRequests}

// kinds returns the kinds of requests for a signer: the known kinds of the signer,
// otherwise the kinds that the policies match.
func (s *state) kinds(name string, about []*v1alpha1.CertificatePolicy) []v1alpha1.RequestKind {
	switch {
	case slices.Contains(signer.Names(), name):
		return []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests}
	case isIssuer(name):
		return []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests, v1alpha1.CertificateRequests}
	case s.declared(name) != nil:
		return s.declared(name).Spec.Requests
	}
	return slices.DeleteFunc(slices.Clone(everyKind), func(kind v1alpha1.RequestKind) bool {
		return !slices.ContainsFunc(about, func(p *v1alpha1.CertificatePolicy) bool { return isAbout(p, kind) })
	})
}

// isIssuer reports whether a name belongs to issuers of cert-manager.io.
func isIssuer(name string) bool {
	domain, _, _ := strings.Cut(name, "/")
	return domain == "issuers."+certmanager.Group || domain == "clusterissuers."+certmanager.Group
}

func (s *state) declared(name string) *v1alpha1.Signer {
	for i := range s.signers {
		if s.signers[i].Spec.SignerName == name {
			return &s.signers[i]
		}
	}
	return nil
}

func isAbout(p *v1alpha1.CertificatePolicy, kind v1alpha1.RequestKind) bool {
	return len(p.Spec.Match.Kinds) == 0 || slices.Contains(p.Spec.Match.Kinds, kind)
}

// isKubelets reports whether requests for a signer come from kubelets, and are never
// refused at creation.
func isKubelets(name string) bool {
	return name == certificatesv1.KubeAPIServerClientKubeletSignerName || name == certificatesv1.KubeletServingSignerName
}
