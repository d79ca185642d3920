package certpolicy

import (
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/certplane/certplane/internal/policy/quorum"
)

// disown removes an approval that became a vote from the fields that managers own.
// Otherwise the server-side applies of two people would conflict about a condition that
// does not exist.
func disown(managed []metav1.ManagedFieldsEntry, sent, conditions []quorum.Condition) []metav1.ManagedFieldsEntry {
	isApproval := func(c quorum.Condition) bool { return c.Type == string(certificatesv1.CertificateApproved) }
	if !slices.ContainsFunc(sent, isApproval) || slices.ContainsFunc(conditions, isApproval) {
		return managed
	}
	key := fieldpath.KeyByFields("type", string(certificatesv1.CertificateApproved))
	return disownFields(managed, fieldpath.NewSet(fieldpath.MakePathOrDie("status", "conditions", key)))
}

// disownFields removes fields from the managed fields.
func disownFields(managed []metav1.ManagedFieldsEntry, gone *fieldpath.Set) []metav1.ManagedFieldsEntry {
	left := make([]metav1.ManagedFieldsEntry, 0, len(managed))
	for _, entry := range managed {
		var owned fieldpath.Set
		if entry.FieldsV1 == nil || owned.FromJSON(entry.FieldsV1.GetRawReader()) != nil {
			left = append(left, entry)
			continue
		}
		rest := owned.RecursiveDifference(gone)
		if raw, err := rest.ToJSON(); err == nil && !rest.Equals(&owned) {
			entry.FieldsV1 = metav1.NewFieldsV1(string(raw))
		}
		if !rest.Empty() {
			left = append(left, entry)
		}
	}
	return left
}
