package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	apiinventory "github.com/certplane/certplane/internal/api/inventory"
	listed "github.com/certplane/certplane/internal/cli/certificates"
)

const (
	// soon is within what time certificates are looked at.
	soon = 7 * 24 * time.Hour
	// mostRecords is how many records are read, and mostLookups how many newer certificates
	// are looked for: the inventory may have a million.
	mostRecords = 5000
	mostLookups = 200
)

// record is a record of the inventory.
type record = inventoryv1alpha1.IssuedCertificate

// inventory checks whether certificates end soon that have no newer one of the same signer
// and names.
func inventory(ctx context.Context, c *checker) []Check {
	connected, err := listed.Connect(c.Client)
	if err != nil {
		return []Check{failure(err)}
	}
	found, more, err := endingSoon(ctx, connected, c.now)
	if err != nil {
		return unread("issuedcertificates.inventory.certplane.dev", err)
	}
	var bad []Check
	for i, r := range c.unrenewed(found) {
		if i == mostLookups {
			more = true
			break
		}
		renewed, err := hasNewer(ctx, connected, r, c.now)
		if err != nil {
			return unread("issuedcertificates.inventory.certplane.dev", err)
		}
		if !renewed {
			facts := &r.Certificate
			bad = append(bad, Check{
				Result: Warning,
				Text:   fmt.Sprintf("the certificate of %s for %s %s, and none is newer", r.SignerName, apiinventory.ShownNames(facts), c.until(facts.NotAfter.Time)),
				Next:   []string{c.Line("certificates", "--serial", facts.SerialNumber, "-o", "wide")},
			})
		}
	}
	checks := summed(bad, "no recorded certificate ends within %d days without a newer one", int(soon/(24*time.Hour)))
	if more {
		checks = append(checks, Check{Result: NotChecked, Text: "more certificates than could be looked at end soon", Next: []string{c.Line("certificates", "--expiring", "7d")}})
	}
	return checks
}

// endingSoon returns records of certificates that end soon, those that end first in front, and
// whether there are more.
func endingSoon(ctx context.Context, c client.Client, now time.Time) (found []record, more bool, err error) {
	selector, err := endsBetween(now, now.Add(soon))
	if err != nil {
		return nil, false, err
	}
	options := &client.ListOptions{LabelSelector: selector, Limit: 1000}
	for {
		page := &inventoryv1alpha1.IssuedCertificateList{}
		if err := c.List(ctx, page, options); err != nil {
			return nil, false, err
		}
		for _, r := range page.Items {
			if apiinventory.ExpectsRenewal(&r) {
				found = append(found, r)
			}
		}
		if options.Continue = page.Continue; options.Continue == "" || len(found) >= mostRecords {
			break
		}
	}
	slices.SortFunc(found, func(a, b record) int {
		return cmp.Or(a.Certificate.NotAfter.Compare(b.Certificate.NotAfter.Time), strings.Compare(a.Name, b.Name))
	})
	return found, options.Continue != "", nil
}

// endsBetween selects the certificates that end after a time and before another one.
func endsBetween(from, to time.Time) (labels.Selector, error) {
	selector := labels.Everything()
	for operator, at := range map[selection.Operator]time.Time{selection.GreaterThan: from, selection.LessThan: to} {
		requirement, err := labels.NewRequirement(inventoryv1alpha1.NotAfterLabel, operator, []string{strconv.FormatInt(at.Unix(), 10)})
		if err != nil {
			return nil, err
		}
		selector = selector.Add(*requirement)
	}
	return selector, nil
}

// unrenewed returns the last record of each signer and names, of those that are near their end.
func (c *checker) unrenewed(found []record) []record {
	last := map[string]record{}
	var order []string
	for _, r := range found {
		key := apiinventory.Identity(&r)
		if _, known := last[key]; !known {
			order = append(order, key)
		}
		last[key] = r // they are in the order of their ends
	}
	var near []record
	for _, key := range order {
		if r := last[key]; apiinventory.IsLate(&r, c.now) {
			near = append(near, r)
		}
	}
	return near
}

// hasNewer reports whether a certificate of the same signer and names ends later.
func hasNewer(ctx context.Context, c client.Client, r record, now time.Time) (bool, error) {
	names := append(apiinventory.AlternativeNames(&r.Certificate), r.Certificate.CommonName)
	if names[0] == "" {
		return true, nil // nothing by which to find one
	}
	const ever = 100 * 365 * 24 * time.Hour
	selector, err := endsBetween(r.Certificate.NotAfter.Time, now.Add(ever))
	if err != nil {
		return false, err
	}
	set := fields.Set{inventoryv1alpha1.SignerField: r.SignerName, inventoryv1alpha1.NameField: names[0]}
	options := &client.ListOptions{LabelSelector: selector, FieldSelector: set.AsSelector(), Limit: 100}
	for {
		page := &inventoryv1alpha1.IssuedCertificateList{}
		if err := c.List(ctx, page, options); err != nil {
			return false, err
		}
		if slices.ContainsFunc(page.Items, func(other record) bool { return apiinventory.Identity(&other) == apiinventory.Identity(&r) }) {
			return true, nil
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return false, nil
		}
	}
}
