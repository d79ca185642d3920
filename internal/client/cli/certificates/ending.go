package certificates

import (
	"context"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api/inventory"
)

// EndsAfter selects the certificates that expire after a time.
func EndsAfter(t time.Time) labels.Selector { return ends(selection.GreaterThan, t) }

// EndsBetween selects the certificates that expire after a time and before another one.
func EndsBetween(from, to time.Time) labels.Selector {
	before, _ := ends(selection.LessThan, to).Requirements()
	return EndsAfter(from).Add(before...)
}

func ends(operator selection.Operator, t time.Time) labels.Selector {
	bound, err := labels.NewRequirement(inventoryv1alpha1.NotAfterLabel, operator, []string{strconv.FormatInt(t.Unix(), 10)})
	if err != nil {
		panic(err) // a number is a valid bound
	}
	return labels.NewSelector().Add(*bound)
}

// Unrenewed returns the certificates that expire before a time, are overdue for renewal,
// and have no newer certificate with the same signer and names. found holds records in
// the order of their expiry. It makes at most the given number of lookups for newer ones;
// more reports that these did not suffice.
func Unrenewed(ctx context.Context, c client.Client, found []inventoryv1alpha1.IssuedCertificate, now, before time.Time, lookups int) (unrenewed []inventoryv1alpha1.IssuedCertificate, more bool, err error) {
	for _, r := range lastOfEach(found) {
		if !inventory.IsLate(&r, now) || !r.Certificate.NotAfter.Time.Before(before) {
			continue
		}
		if lookups--; lookups < 0 {
			return unrenewed, true, nil
		}
		renewed, err := hasNewer(ctx, c, r, now)
		if err != nil {
			return nil, false, Refused("issuedcertificates", err)
		}
		if !renewed {
			unrenewed = append(unrenewed, r)
		}
	}
	return unrenewed, false, nil
}

// lastOfEach returns the last record of each signer and names that are to be renewed.
func lastOfEach(found []inventoryv1alpha1.IssuedCertificate) []inventoryv1alpha1.IssuedCertificate {
	at := map[string]int{}
	var last []inventoryv1alpha1.IssuedCertificate
	for i := range found {
		if !inventory.ExpectsRenewal(&found[i]) {
			continue
		}
		key := inventory.Identity(&found[i])
		if known, ok := at[key]; ok {
			last[known] = found[i]
			continue
		}
		at[key] = len(last)
		last = append(last, found[i])
	}
	return last
}

// hasNewer reports whether a certificate with the same signer and names expires later.
func hasNewer(ctx context.Context, c client.Client, r inventoryv1alpha1.IssuedCertificate, now time.Time) (bool, error) {
	names := append(inventory.AlternativeNames(&r.Certificate), r.Certificate.CommonName)
	if names[0] == "" {
		return true, nil // without names no lookup is possible
	}
	const ever = 100 * 365 * 24 * time.Hour
	set := fields.Set{inventoryv1alpha1.SignerField: r.SignerName, inventoryv1alpha1.NameField: names[0]}
	options := &client.ListOptions{LabelSelector: EndsBetween(r.Certificate.NotAfter.Time, now.Add(ever)), FieldSelector: set.AsSelector(), Limit: 100}
	for {
		page := &inventoryv1alpha1.IssuedCertificateList{}
		if err := c.List(ctx, page, options); err != nil {
			return false, err
		}
		for i := range page.Items {
			if inventory.Identity(&page.Items[i]) == inventory.Identity(&r) {
				return true, nil
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return false, nil
		}
	}
}
