package policyset

import (
	"fmt"
	"slices"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// Promoted returns policies after the named one is enforced in place of the policy that
// it replaces.
func Promoted(policies []*v1alpha1.CertificatePolicy, name string) ([]*v1alpha1.CertificatePolicy, error) {
	i := slices.IndexFunc(policies, func(p *v1alpha1.CertificatePolicy) bool { return p.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("found no file, folder or policy %q", name)
	}
	next := policies[i].DeepCopy()
	replaced := next.Spec.Replaces
	if mode := next.Spec.Mode; mode == "" || mode == v1alpha1.PolicyEnforce {
		return nil, fmt.Errorf("the policy %s is enforced already", name)
	}
	next.Spec.Mode, next.Spec.Replaces = v1alpha1.PolicyEnforce, ""
	promoted := slices.DeleteFunc(slices.Clone(policies), func(p *v1alpha1.CertificatePolicy) bool {
		return p.Name == name || replaced != "" && p.Name == replaced
	})
	return append(promoted, next), nil
}
