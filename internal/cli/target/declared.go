package target

import (
	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/cli/print"
)

// Declared returns the Signer that a person means by a name: its signer name, or its own
// name. It is nil if there is none; near is then a name that may be meant, or empty.
func Declared(name string, all []v1alpha1.Signer) (declared *v1alpha1.Signer, near string) {
	var names []string
	for i := range all {
		s := &all[i]
		if name == s.Spec.SignerName || name == s.Name {
			return s, ""
		}
		names = append(names, s.Spec.SignerName, s.Name)
	}
	return nil, print.Near(name, names)
}
