package venafi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/venafi/internal/signer/venafi"
)

// The annotations of issuers and of CertificateRequests, and those of
// CertificateSigningRequests.
const (
	annotationFields      = cmv1.VenafiCustomFieldsAnnotationKey
	annotationPickup      = cmv1.VenafiPickupIDAnnotationKey
	annotationFieldsOfCSR = "venafi.experimental.cert-manager.io/custom-fields"
	annotationPickupOfCSR = "venafi.experimental.cert-manager.io/pickup-id"
)

// field is an element of an annotation with custom fields.
type field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Type  string `json:"type,omitempty"`
}

// fieldsOf returns the custom fields in an annotation of an object. owner is the
// name of the object in the error, if not empty.
func fieldsOf(annotation, owner string, annotations map[string]string) ([]field, error) {
	text := annotations[annotation]
	if text == "" {
		return nil, nil
	}
	var fields []field
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		if owner != "" {
			owner += " "
		}
		return nil, fmt.Errorf("Failed to parse %s%q annotation: %w", owner, annotation, err) //lint:ignore ST1005 clients of cert-manager.io know the text
	}
	return fields, nil
}

// mergeFields returns the fields of an issuer and of a request, by name. Those of
// the request win.
func mergeFields(ofIssuer, ofRequest []field) []field {
	byName := map[string]field{}
	for _, one := range append(slices.Clone(ofIssuer), ofRequest...) {
		byName[one.Name] = one
	}
	merged := make([]field, 0, len(byName))
	for _, one := range byName {
		merged = append(merged, one)
	}
	slices.SortFunc(merged, func(a, b field) int { return strings.Compare(a.Name, b.Name) })
	return merged
}

// orderFields returns fields for an order. It refuses types that servers do not
// know.
func orderFields(fields []field) ([]venafi.CustomField, error) {
	var ordered []venafi.CustomField
	for _, one := range fields {
		if one.Type != "" && one.Type != "Plain" {
			return nil, fmt.Errorf("certificate request contains an invalid custom fields type: %q", one.Type)
		}
		ordered = append(ordered, venafi.CustomField{Name: one.Name, Value: one.Value})
	}
	return ordered, nil
}
