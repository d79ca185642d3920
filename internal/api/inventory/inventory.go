// Package inventory registers the kinds of inventory.certplane.dev, which the API serves
// without storing them as objects.
package inventory

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
)

// AddToScheme registers IssuedCertificate in v1alpha1, which is the internal version too.
func AddToScheme(scheme *runtime.Scheme) error {
	internal := schema.GroupVersion{Group: inventoryv1alpha1.GroupName, Version: runtime.APIVersionInternal}
	for _, gv := range []schema.GroupVersion{inventoryv1alpha1.GroupVersion, internal} {
		scheme.AddKnownTypes(gv, &inventoryv1alpha1.IssuedCertificate{}, &inventoryv1alpha1.IssuedCertificateList{})
	}
	metav1.AddToGroupVersion(scheme, inventoryv1alpha1.GroupVersion)
	if err := scheme.SetVersionPriority(inventoryv1alpha1.GroupVersion); err != nil {
		return fmt.Errorf("ordering the versions of %s: %w", inventoryv1alpha1.GroupName, err)
	}
	kind := inventoryv1alpha1.GroupVersion.WithKind("IssuedCertificate")
	if err := scheme.AddFieldLabelConversionFunc(kind, normalizeField); err != nil {
		return fmt.Errorf("registering the fields of %s: %w", kind, err)
	}
	return nil
}

// Fields are the fields of a record that field selectors can name, with the values that
// they are compared with.
var Fields = map[string]func(*inventoryv1alpha1.IssuedCertificate) []string{
	NameOfRecord: one(func(r *inventoryv1alpha1.IssuedCertificate) string { return r.Name }),
	inventoryv1alpha1.SerialField: one(func(r *inventoryv1alpha1.IssuedCertificate) string {
		return r.Certificate.SerialNumber
	}),
	inventoryv1alpha1.FingerprintField: one(func(r *inventoryv1alpha1.IssuedCertificate) string {
		return r.Certificate.Fingerprint
	}),
	inventoryv1alpha1.NameField:             names,
	inventoryv1alpha1.SignerField:           one(func(r *inventoryv1alpha1.IssuedCertificate) string { return r.SignerName }),
	inventoryv1alpha1.RequesterField:        one(func(r *inventoryv1alpha1.IssuedCertificate) string { return r.Request.Requester }),
	inventoryv1alpha1.RequestNameField:      one(func(r *inventoryv1alpha1.IssuedCertificate) string { return r.Request.Name }),
	inventoryv1alpha1.RequestNamespaceField: one(func(r *inventoryv1alpha1.IssuedCertificate) string { return r.Request.Namespace }),
}

// NameOfRecord is the field with the name of a record.
const NameOfRecord = "metadata.name"

func one(of func(*inventoryv1alpha1.IssuedCertificate) string) func(*inventoryv1alpha1.IssuedCertificate) []string {
	return func(r *inventoryv1alpha1.IssuedCertificate) []string { return []string{of(r)} }
}

// names returns the names of a certificate as they are compared: in lower case.
func names(record *inventoryv1alpha1.IssuedCertificate) []string {
	names := AlternativeNames(&record.Certificate)
	if record.Certificate.CommonName != "" {
		names = append(names, record.Certificate.CommonName)
	}
	for i := range names {
		names[i] = strings.ToLower(names[i])
	}
	return names
}

// AlternativeNames returns the subject alternative names of a certificate that its record
// has.
func AlternativeNames(facts *inventoryv1alpha1.CertificateFacts) []string {
	return slices.Concat(facts.DNSNames, facts.IPAddresses, facts.URIs, facts.EmailAddresses)
}

// shownNames is how many names of a certificate tables have.
const shownNames = 2

// ShownNames returns the names of a certificate for tables, or its subject if it has none.
func ShownNames(facts *inventoryv1alpha1.CertificateFacts) string {
	names := AlternativeNames(facts)
	switch more := len(names) - shownNames; {
	case len(names) == 0:
		return facts.Subject
	case more > 0:
		return strings.Join(names[:shownNames], ",") + fmt.Sprintf(" + %d more", more)
	}
	return strings.Join(names, ",")
}

// normalizeField returns a field and its value as records have it: numbers without
// separators, and in lower case what is compared without case.
func normalizeField(field, value string) (string, string, error) {
	if Fields[field] == nil {
		return "", "", fmt.Errorf("%q is not a known field selector: only %s", field, strings.Join(slices.Sorted(maps.Keys(Fields)), ", "))
	}
	switch field {
	case inventoryv1alpha1.SerialField:
		value = strings.TrimLeft(strings.ToLower(strings.ReplaceAll(value, ":", "")), "0")
	case inventoryv1alpha1.FingerprintField:
		value = strings.ToLower(strings.ReplaceAll(value, ":", ""))
	case inventoryv1alpha1.NameField:
		value = strings.ToLower(value)
	}
	return field, value, nil
}
