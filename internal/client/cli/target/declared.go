package target

import (
	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/print"
)

// Declared returns the Signer with a name: its signer name, or its own name. It is nil if
// none matches; near is then a similar name, or empty.
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
