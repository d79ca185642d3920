package revoking

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	apiinventory "github.com/certplane/certplane/internal/api/inventory"
	"github.com/certplane/certplane/internal/inventory"
)

// selected returns the certificates that a selection selects: those that have not ended, are
// not revoked, and were not made by the server for itself. If it selects more than it may, the
// first ones come with the error.
func (r *Revoker) selected(ctx context.Context, spec v1alpha1.RevocationSpec, now time.Time) ([]target, field.ErrorList) {
	path := field.NewPath("spec", "selection")
	s := spec.Selection
	of, err := labels.Parse(s.Labels)
	if err != nil {
		return nil, field.ErrorList{field.Invalid(path.Child("labels"), s.Labels, err.Error())}
	}
	before := now.Add(time.Second) // all that exist: records have whole seconds
	if s.IssuedBefore != nil {
		if s.IssuedBefore.After(now) {
			return nil, field.ErrorList{field.Invalid(path.Child("issuedBefore"), s.IssuedBefore.UTC().Format(time.RFC3339), "must not be in the future")}
		}
		before = s.IssuedBefore.Time
	}
	select {
	case r.selecting <- struct{}{}:
		defer func() { <-r.selecting }()
	case <-ctx.Done():
		return nil, field.ErrorList{field.InternalError(path, errors.New("another selection is under way: try again later"))}
	}
	if err := r.Records.AwaitStored(ctx); err != nil { // a certificate that is not known would stay valid
		return nil, field.ErrorList{field.InternalError(path, fmt.Errorf("counting the certificates: %w: try again later", err))}
	}
	var targets []target
	var unusable error
	count, seen := int32(0), map[string]bool{}
	found := func(record *inventoryv1alpha1.IssuedCertificate) bool {
		facts := &record.Certificate
		if seen[record.Name] || record.Use != "" || apiinventory.IsRevoked(record) || !facts.NotAfter.After(now) ||
			!record.CreationTimestamp.Time.Before(before) || !apiinventory.Selects(s, record) {
			return true
		}
		seen[record.Name] = true
		if count++; count > spec.AtMost {
			return true // count them all
		}
		t, err := ofRecord(record, path)
		if err != nil {
			unusable = err
			return false
		}
		targets = append(targets, *t)
		return true
	}
	for _, query := range queries(s) {
		query.Labels = of
		if err := inventory.Each(ctx, r.Records, query, found); err != nil {
			return nil, field.ErrorList{field.InternalError(path, fmt.Errorf("counting the certificates: %w: narrow the selection", err))}
		}
	}
	switch {
	case unusable != nil:
		return nil, field.ErrorList{field.Forbidden(path, unusable.Error())}
	case count > spec.AtMost:
		return targets, field.ErrorList{field.Invalid(field.NewPath("spec", "atMost"), spec.AtMost, fmt.Sprintf("%d certificates match, and at most %d may", count, spec.AtMost))}
	case count == 0:
		return nil, field.ErrorList{field.Invalid(path, "", "selects no certificate that has not ended and is not revoked")}
	}
	return targets, nil
}

// queries returns queries that together find all records of a selection: one for each value
// of the list that is likely to select the fewest.
func queries(s *v1alpha1.RevocationSelection) []inventory.Query {
	for _, list := range []struct {
		field  string
		values []string
	}{
		{inventoryv1alpha1.KeyFingerprintField, s.KeyFingerprints},
		{inventoryv1alpha1.NameField, s.Names},
		{inventoryv1alpha1.RequesterField, s.Requesters},
		{inventoryv1alpha1.RequestNamespaceField, s.Namespaces},
		{inventoryv1alpha1.SignerField, s.Signers},
	} {
		var queries []inventory.Query
		for _, value := range list.values {
			if list.field == inventoryv1alpha1.KeyFingerprintField || list.field == inventoryv1alpha1.NameField {
				value = strings.ToLower(value)
			}
			queries = append(queries, inventory.Query{Fields: fields.OneTermEqualSelector(list.field, value)})
		}
		if len(queries) > 0 {
			return queries
		}
	}
	return []inventory.Query{{}}
}
