package order

import (
	"fmt"
	"slices"
	"strings"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
)

// NamesKey returns what Orders have in common that order the same identifiers
// from the same issuer.
func NamesKey(o *acmev1.Order) string {
	of := IssuerOf(o.Namespace, o.Spec.IssuerRef)
	var names []string
	for _, id := range NewOrder(o.Spec, o.CreationTimestamp.Time).Identifiers {
		names = append(names, strings.ToLower(id.Value))
	}
	return strings.Join(append([]string{of.Kind, of.Namespace, of.Name}, sortedSet(names)...), " ")
}

// maxDuplicates is how many other Certificates are named.
const maxDuplicates = 5

// Duplicates describes the other Certificates for which the same identifiers are
// ordered from the same issuer; "" if there are none. same are Orders with the
// NamesKey of o. Certificates of other namespaces are counted, not named.
func Duplicates(o *acmev1.Order, same []acmev1.Order) string {
	own := o.Annotations[cmv1.CertificateNameKey]
	if own == "" {
		return ""
	}
	var here []string
	elsewhere := map[string]bool{}
	for i := range same {
		name := same[i].Annotations[cmv1.CertificateNameKey]
		switch {
		case name == "" || IsFailure(same[i].Status.State):
		case same[i].Namespace != o.Namespace:
			elsewhere[same[i].Namespace+"/"+name] = true
		case name != own && !slices.Contains(here, name):
			here = append(here, name)
		}
	}
	if len(here)+len(elsewhere) == 0 {
		return ""
	}
	slices.Sort(here)
	text := fmt.Sprintf("%d other Certificates have the same names from this issuer", len(here)+len(elsewhere))
	if len(here) > 0 {
		text += ": " + strings.Join(here[:min(len(here), maxDuplicates)], ", ")
		if len(here) > maxDuplicates {
			text += ", ..."
		}
	}
	if len(elsewhere) > 0 {
		text += fmt.Sprintf(" (%d in other namespaces)", len(elsewhere))
	}
	return text + ". CAs limit certificates for exactly the same names: use the Secret of one"
}
