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

// requests says what becomes of requests of a kind for a signer.
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

// outcome is what a policy makes of requests that no Allow policy is about.
type outcome struct {
	becomes string
	// always is set if it does so with all of them.
	always bool
}

// outcomes returns what enforced policies make of requests of a kind, the first
// that counts first: a DenyRest before people that a Limit requires.
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
			people = append(people, outcome{fmt.Sprintf("left to %d people, who must approve it by %s", p.Spec.Approval.People.Count, p.Name), always})
		}
	}
	return slices.Concat(invalid, denied, people)
}

// matchesAll reports whether a policy is about all requests of its kinds for its
// signers.
func matchesAll(m *v1alpha1.PolicyMatch) bool {
	return len(m.Origins) == 0 && m.Namespaces == nil && m.Requesters == nil && len(m.Access) == 0 && len(m.Conditions) == 0
}

// What becomes of requests that no policy is about.
const (
	leftToPeople = "left to people"
	approvedAll  = "approved by " + certpolicy.BuiltInPrefix + "approve-all"
)

// base returns what becomes of requests of a kind that no policy is about, and
// what this depends on.
func (s *state) base(kind v1alpha1.RequestKind, name string) (becomes, condition string) {
	switch {
	case kind == v1alpha1.PodCertificateRequests:
		return "signed, as pods' requests need no approval", ""
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

// seen returns the last request for a signer that was approved although no
// policy is about it.
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

// admitted adds a stage of admission. "certplane serve" asks the policies
// itself, other API servers if they have the webhook.
func (s *state) admitted(all []Stage, name, webhook string) []Stage {
	switch {
	case s.serve() || s.webhooks[webhook]:
		return append(all, Stage{name, true})
	case s.webhooks == nil:
		return append(all, Stage{name, false})
	}
	return all
}

// signs reports whether certplane certainly signs for a signer: one of its own
// controllers has opened the CA of the Signer.
func (s *state) signs(name string) bool {
	declared := s.declared(name)
	return declared != nil && meta.IsStatusConditionTrue(declared.Status.Conditions, "Ready")
}

// notes are about all signers.
func (s *state) notes() []string {
	notes := []string{
		`"sign?": policies are asked before the signature only where certplane signs, and the API does not show which of its controllers run`,
	}
	switch {
	case s.serve():
		notes = append(notes, "create and approve: as long as the admission plugin CertificatePolicy is on, create with policy.createChecks; the API shows neither")
	case s.webhooks == nil:
		notes = append(notes, `"create?", "approve?": if the API server calls the webhook of certplane, which could not be found out`)
	case !s.webhooks["validating "+policies.RequestsWebhook] || !s.webhooks["validating "+policies.ApprovalsWebhook] || !s.webhooks["mutating "+policies.ApprovalsWebhook]:
		notes = append(notes, "the API server does not call all webhooks of certplane: nothing is refused at create or approve without them, and people cannot approve together; 'certplane manifests' writes their configuration")
	}
	if s.foreign != "" {
		notes = append(notes, "approver-policy runs too: "+s.foreign+". What policies forbid is denied all the same, but it may approve what they leave")
	}
	if len(s.unread) > 0 {
		notes = append(notes, "you may not list these, so nothing is known of them: "+strings.Join(s.unread, ", "))
	}
	return notes
}
