package quorum

import (
	"fmt"
	"slices"
	"strings"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// Override is an approval that replaces all people required by some policies.
type Override struct {
	// Why is the reason that the voter has written in the annotation.
	Why string `json:"why"`
	// Policies are the names of the policies that the voter had the right to override,
	// sorted.
	Policies []string `json:"policies"`
}

// text returns all fields of the override.
func (o *Override) text() string {
	if o == nil {
		return ""
	}
	return fmt.Sprint(o.Policies, o.Why)
}

// ReasonNotOverridden: the voter may not override the policies that a record
// names, or gives no reason for it.
const ReasonNotOverridden = "OverrideNotPermitted"

// MayOverrideFunc reports whether the user who writes may override a policy.
type MayOverrideFunc func(policy string) (bool, error)

// Why returns the reason for overriding policies in the annotations of a request, or
// "".
func Why(annotations map[string]string) string {
	return strings.TrimSpace(annotations[v1alpha1.AnnotationOverride])
}

// Overridable reports whether one person with the right to override the policy can
// approve instead of all others.
func (r Requirement) Overridable() bool { return r.People.Override == v1alpha1.OverrideAllowed }

// overriddenBy reports whether a vote without an objection meets r alone. The override
// counts only while the policy still permits it.
func (r Requirement) overriddenBy(v *Vote) bool {
	return r.Overridable() && v.Override != nil && slices.Contains(v.Override.Policies, r.Policy)
}

// override returns the override that the user's approval makes: of the policies that
// are not met and that the user may override. Without such policies it returns nil and,
// if the request has the annotation, why the annotation has no effect.
func (w *Write) override(votes []Vote, reqs []Requirement) (o *Override, ineffective string, err error) {
	why := Why(w.Request.ObjectAnnotations)
	if why == "" || w.User.Impersonator != "" {
		return nil, "", nil
	}
	vote := voteOf(w.User.Person, w.Now)
	var names, objections []string
	for _, req := range reqs {
		if t := newTally(req, votes, w.Request.Requester, w.Now); t.met() {
			continue
		}
		if !req.Overridable() {
			objections = append(objections, policyHeading(req.Policy)+"it cannot be overridden")
			continue
		}
		if o := req.objection(&vote, w.Request.Requester, w.Now); o != nil {
			objections = append(objections, policyHeading(req.Policy)+o.Message)
			continue
		}
		switch may, err := w.mayOverride(req.Policy); {
		case err != nil:
			return nil, "", err
		case may:
			names = append(names, req.Policy)
		default:
			objections = append(objections, policyHeading(req.Policy)+lacksOverride(req.Policy))
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		return &Override{Why: why, Policies: names}, "", nil
	}
	return nil, fmt.Sprintf("the annotation %s has no effect: %s", v1alpha1.AnnotationOverride, strings.Join(objections, "; ")), nil
}

func lacksOverride(policy string) string {
	return fmt.Sprintf(`overriding it needs the verb "override" on certificatepolicies %q of %s`, policy, v1alpha1.GroupName)
}

func (w *Write) mayOverride(policy string) (bool, error) {
	if w.MayOverride == nil {
		return false, nil
	}
	return w.MayOverride(policy)
}

// checkOverride returns a refusal unless the user may override the policies of a
// new record, for the reason that the request has.
func (w *Write) checkOverride(o *Override) *Refusal {
	if o == nil {
		return nil
	}
	if o.Why == "" || o.Why != Why(w.Request.ObjectAnnotations) {
		return &Refusal{ReasonNotOverridden, "the annotation " + v1alpha1.AnnotationOverride + " was changed"}
	}
	for _, policy := range o.Policies {
		switch may, err := w.mayOverride(policy); {
		case err != nil:
			return &Refusal{ReasonFactMissing, err.Error() + "; try again later"}
		case !may:
			return &Refusal{ReasonNotOverridden, policyHeading(policy) + lacksOverride(policy)}
		}
	}
	return nil
}

// overrideWarnings tells a voter what the approval has overridden.
func overrideWarnings(o *Override) []string {
	var warnings []string
	for _, policy := range o.Policies {
		warnings = append(warnings, policyHeading(policy)+"your approval overrides it, which is recorded with the reason "+quoted(o.Why))
	}
	return warnings
}

// quoted returns a text in quotation marks, for a message of one line.
func quoted(text string) string { return `"` + printable(text) + `"` }
