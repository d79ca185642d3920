package protection

import (
	"reflect"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// AllowsMore reports whether a policy can allow requests that it did not allow
// before; old may be nil. All that counts for decisions is compared, as what widens
// a policy cannot be told from what narrows it.
func AllowsMore(spec, old *v1alpha1.CertificatePolicySpec) bool {
	return allows(spec) && (old == nil || !allows(old) || !reflect.DeepEqual(decisive(spec), decisive(old)))
}

func allows(spec *v1alpha1.CertificatePolicySpec) bool {
	return spec.Effect == v1alpha1.PolicyAllow && spec.EffectiveMode() == v1alpha1.PolicyEnforce
}

// decisive returns the specification without what only people read, and without
// who may change it.
func decisive(spec *v1alpha1.CertificatePolicySpec) v1alpha1.CertificatePolicySpec {
	s := *spec
	s.Mode, s.Description, s.Message, s.Disclosure, s.Protection = "", "", "", "", nil
	return s
}
