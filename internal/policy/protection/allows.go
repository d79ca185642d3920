package protection

import (
	"reflect"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// AllowsMore reports whether a policy can allow requests that it did not allow before;
// old may be nil. It compares all fields that matter to decisions, because it cannot
// determine whether a change widens or narrows a policy.
func AllowsMore(spec, old *v1alpha1.CertificatePolicySpec) bool {
	return allows(spec) && (old == nil || !allows(old) || !reflect.DeepEqual(decisive(spec), decisive(old)))
}

func allows(spec *v1alpha1.CertificatePolicySpec) bool {
	return spec.Effect == v1alpha1.PolicyAllow && spec.EffectiveMode() == v1alpha1.PolicyEnforce
}

// decisive returns the specification without the texts for people, and without its
// protection.
func decisive(spec *v1alpha1.CertificatePolicySpec) v1alpha1.CertificatePolicySpec {
	s := *spec
	s.Mode, s.Description, s.Message, s.Disclosure, s.Protection = "", "", "", "", nil
	return s
}
