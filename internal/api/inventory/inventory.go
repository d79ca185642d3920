// Package inventory registers the kinds of inventory.certplane.dev, which the API serves
// without storing them as objects.
package inventory

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
)

// AddToScheme registers the kinds in v1alpha1, which is the internal version too.
func AddToScheme(scheme *runtime.Scheme) error {
	internal := schema.GroupVersion{Group: inventoryv1alpha1.GroupName, Version: runtime.APIVersionInternal}
	for _, gv := range []schema.GroupVersion{inventoryv1alpha1.GroupVersion, internal} {
		scheme.AddKnownTypes(gv, &inventoryv1alpha1.IssuedCertificate{}, &inventoryv1alpha1.IssuedCertificateList{},
			&inventoryv1alpha1.CertificateDecision{}, &inventoryv1alpha1.CertificateDecisionList{},
			&inventoryv1alpha1.RevocationList{}, &inventoryv1alpha1.RevocationListList{})
	}
	metav1.AddToGroupVersion(scheme, inventoryv1alpha1.GroupVersion)
	if err := scheme.SetVersionPriority(inventoryv1alpha1.GroupVersion); err != nil {
		return fmt.Errorf("ordering the versions of %s: %w", inventoryv1alpha1.GroupName, err)
	}
	for _, name := range []string{"IssuedCertificate", "CertificateDecision"} {
		kind := inventoryv1alpha1.GroupVersion.WithKind(name)
		if err := scheme.AddFieldLabelConversionFunc(kind, NormalizeField); err != nil {
			return fmt.Errorf("registering the fields of %s: %w", kind, err)
		}
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
	inventoryv1alpha1.KeyFingerprintField: func(r *inventoryv1alpha1.IssuedCertificate) []string {
		if r.Certificate.KeyFingerprint == "" { // denials and records of earlier versions
			return nil
		}
		return []string{r.Certificate.KeyFingerprint}
	},
	inventoryv1alpha1.NameField:               names,
	inventoryv1alpha1.KeyTypeField:            keyTypes,
	inventoryv1alpha1.SignatureAlgorithmField: signatureAlgorithms,
	inventoryv1alpha1.DecisionField:           one(DecisionOf),
	inventoryv1alpha1.DecisionUserField:       DecidedBy,
	inventoryv1alpha1.SignerField:             one(func(r *inventoryv1alpha1.IssuedCertificate) string { return r.SignerName }),
	inventoryv1alpha1.RequesterField:          one(func(r *inventoryv1alpha1.IssuedCertificate) string { return r.Request.Requester }),
	inventoryv1alpha1.RequestNameField:        one(func(r *inventoryv1alpha1.IssuedCertificate) string { return r.Request.Name }),
	inventoryv1alpha1.RequestNamespaceField:   one(func(r *inventoryv1alpha1.IssuedCertificate) string { return r.Request.Namespace }),
}

// DecisionOf returns how a request was decided; empty if that is not known.
func DecisionOf(record *inventoryv1alpha1.IssuedCertificate) string {
	switch {
	case record.Denial != nil:
		return inventoryv1alpha1.Denied
	case record.Approval != nil:
		return inventoryv1alpha1.Approved
	}
	return ""
}

// DecidedBy returns the users who have approved or denied a request.
func DecidedBy(record *inventoryv1alpha1.IssuedCertificate) []string {
	switch {
	case record.Denial != nil && record.Denial.User != "":
		return []string{record.Denial.User}
	case record.Approval != nil:
		return record.Approval.Approvers
	}
	return nil
}

// NewDecision returns the view of a record that describes the decision.
func NewDecision(record *inventoryv1alpha1.IssuedCertificate) *inventoryv1alpha1.CertificateDecision {
	facts := &record.Certificate
	d := &inventoryv1alpha1.CertificateDecision{
		ObjectMeta: record.ObjectMeta, Decision: DecisionOf(record), Users: DecidedBy(record), SignerName: record.SignerName, Request: record.Request,
		Subject: facts.Subject, Names: AlternativeNames(facts), OmittedNames: facts.OmittedNames, KeyType: facts.KeyType,
	}
	switch {
	case record.Denial != nil:
		of := record.Denial
		d.Time, d.Reason, d.Message, d.Policies, d.Votes = &of.Time, of.Reason, of.Message, of.Policies, of.Votes
	case record.Approval != nil:
		of := record.Approval
		d.Time, d.Reason, d.Message, d.Policies, d.Votes, d.Certificate = of.Time, of.Reason, of.Message, of.Policies, of.Votes, record.Name
	}
	return d
}

// LocationText returns what has a certificate, for tables; empty if that is not known.
func LocationText(l *inventoryv1alpha1.Location) string {
	if l == nil {
		return ""
	}
	text := l.Kind + " " + strings.TrimPrefix(l.Namespace+"/"+l.Name, "/")
	if l.Claimed {
		text += " (as the request says)"
	}
	return text
}

// NameOfRecord is the field with the name of a record.
const NameOfRecord = "metadata.name"

func one(of func(*inventoryv1alpha1.IssuedCertificate) string) func(*inventoryv1alpha1.IssuedCertificate) []string {
	return func(r *inventoryv1alpha1.IssuedCertificate) []string { return []string{of(r)} }
}

// The states of certificates.
const (
	Valid   = "valid"
	Revoked = "revoked"
	Ended   = "ended"
)

// State returns the state of a certificate at a time, for tables. A revoked one stays revoked
// after its end.
func State(record *inventoryv1alpha1.IssuedCertificate, now time.Time) string {
	switch {
	case record.Revocation != nil:
		return Revoked
	case !record.Certificate.NotAfter.After(now):
		return Ended
	}
	return Valid
}

// shownNames is the maximum number of names of a certificate in tables.
const shownNames = 2

// ShownNames returns the names of a certificate for tables, or its subject if it has none.
func ShownNames(facts *inventoryv1alpha1.CertificateFacts) string {
	names := AlternativeNames(facts)
	shown := names[:min(len(names), shownNames)]
	switch more := len(names) - len(shown) + int(facts.OmittedNames); {
	case facts.OmittedNames > 0:
		return strings.Join(shown, ",") + fmt.Sprintf(" + %d more, %d of them not in the record", more, facts.OmittedNames)
	case len(names) == 0:
		return facts.Subject
	case more > 0:
		return strings.Join(shown, ",") + fmt.Sprintf(" + %d more", more)
	}
	return strings.Join(names, ",")
}

// NamesOfDecision returns the names that were asked for, as ShownNames does.
func NamesOfDecision(d *inventoryv1alpha1.CertificateDecision) string {
	return ShownNames(&inventoryv1alpha1.CertificateFacts{Subject: d.Subject, DNSNames: d.Names, OmittedNames: d.OmittedNames})
}

// NormalizeField returns a field and its value as records have it: numbers without
// separators, and in lower case what is compared without case.
func NormalizeField(field, value string) (string, string, error) {
	if Fields[field] == nil && !IsCondition(field) {
		known := slices.Concat(slices.Collect(maps.Keys(Fields)), slices.Collect(maps.Keys(conditions)))
		slices.Sort(known)
		return "", "", fmt.Errorf("%q is not a known field selector: only %s", field, strings.Join(slices.Compact(known), ", "))
	}
	if normalize := normalizers[field]; normalize != nil {
		normal, err := normalize(value)
		if err != nil {
			return "", "", fmt.Errorf("%s: %w", field, err)
		}
		return field, normal, nil
	}
	switch field {
	case inventoryv1alpha1.SerialField:
		value = strings.TrimLeft(strings.ToLower(strings.ReplaceAll(value, ":", "")), "0")
	case inventoryv1alpha1.FingerprintField:
		value = strings.ToLower(strings.ReplaceAll(value, ":", ""))
	}
	return field, BoundText(value), nil
}

// maxText is how long one of the texts of a record is at most that others choose, such as
// its subject.
const maxText = 512

// BoundText returns a text as records have it: the end of one that is too long is replaced by
// its digest, so that different ones stay different.
func BoundText(text string) string {
	if len(text) <= maxText {
		return text
	}
	digest := sha256.Sum256([]byte(text))
	end := fmt.Sprintf("... (SHA-256 %x)", digest[:16])
	return strings.ToValidUTF8(text[:maxText-len(end)], "") + end
}
