package status

import (
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/names"
)

// requests describes the outcome of requests of a kind for a signer.
func (s *state) requests(kind v1alpha1.RequestKind, name string, about []*v1alpha1.CertificatePolicy) Requests {
	r := Requests{Kind: kind, EnforcedAt: s.stages(kind, name)}
	var partly []string
	for _, o := range outcomes(kind, about) {
		if o.always {
			r.Rest = strings.Join(append(partly, o.becomes), "; others ")
			return r
		}
		partly = append(partly, o.becomes+" where it matches")
	}
	base, condition := s.base(kind, name)
	r.Rest, r.RestIf = strings.Join(append(partly, base), "; others "), condition
	if kind == v1alpha1.CertificateRequests {
		r.Seen = s.seen(name)
	}
	return r
}

// outcome is the result of a policy for requests that no Allow policy matches.
type outcome struct {
	becomes string
	// always is true if the outcome applies to all of them.
	always bool
}

// outcomes returns the results of enforced policies for requests of a kind, in the order
// of precedence: a DenyRest before people that a Limit requires.
func outcomes(kind v1alpha1.RequestKind, about []*v1alpha1.CertificatePolicy) []outcome {
	var invalid, denied, people []outcome
	for _, p := range about {
		if p.Spec.EffectiveMode() != v1alpha1.PolicyEnforce || !isAbout(p, kind) || p.Spec.Effect == v1alpha1.PolicyAllow {
			continue
		}
		always := matchesAll(&p.Spec.Match)
		switch compiled, _, _ := certpolicy.Compile(p); {
		case compiled.Err() != nil:
			invalid = append(invalid, outcome{"held up by " + p.Name + ", which is not valid", always})
		case p.Spec.Effect == v1alpha1.PolicyDenyRest:
			denied = append(denied, outcome{"denied by " + p.Name, always})
		case p.Spec.Approval != nil && p.Spec.Approval.Mode == v1alpha1.ApprovePeople && p.Spec.Approval.People != nil:
			people = append(people, outcome{fmt.Sprintf("left to %d people, required by %s", p.Spec.Approval.People.Count, p.Name), always})
		}
	}
	return slices.Concat(invalid, denied, people)
}

// matchesAll reports whether a policy matches all requests of its kinds for its signers.
func matchesAll(m *v1alpha1.PolicyMatch) bool {
	return len(m.Origins) == 0 && m.Namespaces == nil && m.Requesters == nil && len(m.Access) == 0 && len(m.Conditions) == 0
}

// Outcomes of requests that no policy matches.
const (
	leftToPeople = "left to people"
	approvedAll  = "approved by " + certpolicy.BuiltInPrefix + "approve-all"
)

// base returns the outcome of requests of a kind that no policy matches, and its
// condition.
func (s *state) base(kind v1alpha1.RequestKind, name string) (becomes, condition string) {
	switch {
	case kind == v1alpha1.PodCertificateRequests:
		return "signed, because pods' requests need no approval", ""
	case kind == v1alpha1.CertificateRequests && s.served:
		return approvedAll + ", or " + leftToPeople,
			"approved if the controller certificaterequests-approver runs and policy.certificateRequestPolicies is off; " + s.namedRequestPolicies()
	case kind == v1alpha1.CertificateRequests:
		return approvedAll + ", or " + leftToPeople, "approved if the controller certificaterequests-approver runs"
	case name == certificatesv1.KubeAPIServerClientKubeletSignerName:
		return "of kubelets approved by builtin:selfnodeclient or builtin:nodeclient, all others " + leftToPeople,
			`kubelets' are approved if the controller "approve", or that of Kubernetes, runs`
	}
	return leftToPeople, ""
}

func (s *state) namedRequestPolicies() string {
	if len(s.requestPolicies) == 0 {
		return "there are no CertificateRequestPolicies"
	}
	slices.Sort(s.requestPolicies)
	return "where it is on, these decide first: " + strings.Join(s.requestPolicies, ", ")
}

// seen returns the last request for a signer that was approved although no policy matches
// it.
func (s *state) seen(name string) *Seen {
	glob, err := names.ParseSigner(name)
	if err != nil {
		return nil
	}
	var last *Seen
	for signer, seen := range s.approvedByAll {
		if glob.Match(signer) && (last == nil || last.Time.Before(&seen.Time)) {
			last = &seen
		}
	}
	return last
}

// stages returns the stages at which policies are enforced for a signer.
func (s *state) stages(kind v1alpha1.RequestKind, name string) []Stage {
	signed := Stage{"sign", s.signs(name)}
	if kind == v1alpha1.PodCertificateRequests {
		return []Stage{signed}
	}
	var all []Stage
	if !isKubelets(name) {
		all = s.admitted(all, "create", "validating "+policies.RequestsWebhook)
	}
	return append(s.admitted(all, "approve", "validating "+policies.ApprovalsWebhook), signed)
}

// admitted adds a stage of admission. "certplane serve" evaluates the policies itself,
// other API servers call the webhook if it is installed.
func (s *state) admitted(all []Stage, name, webhook string) []Stage {
	switch {
	case s.serve() || s.webhooks[webhook]:
		return append(all, Stage{name, true})
	case s.webhooks == nil:
		return append(all, Stage{name, false})
	}
	return all
}

// signs reports whether certplane certainly signs for a signer: one of its controllers
// has loaded the CA of the Signer.
func (s *state) signs(name string) bool {
	declared := s.declared(name)
	return declared != nil && meta.IsStatusConditionTrue(declared.Status.Conditions, "Ready")
}

// notes returns remarks for all signers.
func (s *state) notes() []string {
	notes := []string{
		`"sign?": policies are evaluated before the signature only where certplane signs, but the API does not show which of its controllers run`,
	}
	switch {
	case s.serve():
		notes = append(notes, "create and approve: enforced while the admission plugin CertificatePolicy is enabled, create with policy.createChecks; the API shows neither")
	case s.webhooks == nil:
		notes = append(notes, `"create?", "approve?": enforced if the API server calls the webhook of certplane, which could not be read`)
	case !s.webhooks["validating "+policies.RequestsWebhook] || !s.webhooks["validating "+policies.ApprovalsWebhook] || !s.webhooks["mutating "+policies.ApprovalsWebhook]:
		notes = append(notes, "the API server does not call all webhooks of certplane: without them it refuses no request at create or approve, and people cannot approve together; 'certplane manifests' prints their configuration")
	}
	if s.foreign != "" {
		notes = append(notes, "approver-policy also runs: "+s.foreign+". Requests that policies forbid are still denied, but approver-policy may approve requests that they leave")
	}
	if len(s.unread) > 0 {
		notes = append(notes, "you may not list these objects, so the report omits them: "+strings.Join(s.unread, ", "))
	}
	return notes
}
