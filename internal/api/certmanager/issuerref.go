package certmanager

import (
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// IssuerKind returns the kind to which ref refers.
func IssuerKind(ref cmmeta.IssuerReference) string {
	if ref.Kind == "" {
		return cmv1.IssuerKind
	}
	return ref.Kind
}

// IssuerGroup returns the API group to which ref refers.
func IssuerGroup(ref cmmeta.IssuerReference) string {
	if ref.Group == "" {
		return Group
	}
	return ref.Group
}

// IsBuiltIn reports whether ref is to an Issuer or ClusterIssuer of this API,
// and not to the kind of an external issuer.
func IsBuiltIn(ref cmmeta.IssuerReference) bool { return IssuerGroup(ref) == Group }

// SameIssuer reports whether two references refer to the same issuer.
func SameIssuer(a, b cmmeta.IssuerReference) bool {
	return a.Name == b.Name && IssuerKind(a) == IssuerKind(b) && IssuerGroup(a) == IssuerGroup(b)
}

// validateIssuerRef does not know which kinds other groups have.
func validateIssuerRef(ref cmmeta.IssuerReference, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if ref.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "must be the name of an issuer"))
	}
	if kind := IssuerKind(ref); IsBuiltIn(ref) && kind != cmv1.IssuerKind && kind != cmv1.ClusterIssuerKind {
		why := "must be Issuer or ClusterIssuer"
		if ref.Group == "" {
			why += fmt.Sprintf("; the kind of an external issuer needs its API group in %s", path.Child("group"))
		}
		errs = append(errs, field.Invalid(path.Child("kind"), ref.Kind, why))
	}
	return errs
}
