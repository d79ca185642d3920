package crp

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/api/approverpolicy"
)

// Compile compiles a policy. It is also the validation of policies when they
// are written. The policy is returned in any case: one that is stored is
// evaluated, as approver-policy does.
func Compile(declared *approverpolicy.CertificateRequestPolicy) (*Policy, field.ErrorList) {
	spec := declared.Spec.DeepCopy()
	p := &Policy{
		name: declared.Name, generation: declared.Generation,
		selector: compileSelector(&spec.Selector), allowed: compileAllowed(spec.Allowed), constraints: spec.Constraints,
		plugins: validatePlugins(spec.Plugins), state: stateOf(&declared.Status),
	}
	errs := append(p.plugins.list(), p.selector.validate(&spec.Selector)...)
	errs = append(errs, p.allowed.validate()...)
	return p, append(errs, validateConstraints(spec.Constraints)...)
}

// WithStatus returns the policy with another status, without compiling its
// expressions again.
func (p *Policy) WithStatus(status *approverpolicy.Status) *Policy {
	changed := *p
	changed.state = stateOf(status)
	return &changed
}
