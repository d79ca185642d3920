package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	apiinventory "github.com/certplane/certplane/internal/api/inventory"
	listed "github.com/certplane/certplane/internal/client/cli/certificates"
)

const (
	// soon is the time before expiry from which certificates are checked.
	soon = 7 * 24 * time.Hour
	// mostRecords limits the records read, and mostLookups the lookups of newer
	// certificates: the inventory can contain a million.
	mostRecords = 5000
	mostLookups = 200
)

// record is a record of the inventory.
type record = inventoryv1alpha1.IssuedCertificate

// inventory checks for certificates that expire soon without a newer one with the same
// signer and names.
func inventory(ctx context.Context, c *checker) []Check {
	connected, err := listed.ConnectIn(c.Client, c.Controllers)
	if err != nil {
		return []Check{failure(err)}
	}
	found, more, err := endingSoon(ctx, connected, c.now)
	if err != nil {
		return unread("issuedcertificates.inventory.certplane.dev", err)
	}
	unrenewed, unsure, err := listed.Unrenewed(ctx, connected, found, c.now, c.now.Add(soon), mostLookups)
	if err != nil {
		return unread("issuedcertificates.inventory.certplane.dev", err)
	}
	more = more || unsure
	bad := c.unrecorded(ctx)
	for i := range unrenewed {
		facts := &unrenewed[i].Certificate
		bad = append(bad, Check{
			Result: Warning,
			Text:   fmt.Sprintf("the certificate from %s for %s %s, without a newer one", unrenewed[i].SignerName, apiinventory.ShownNames(facts), c.until(facts.NotAfter.Time)),
			Next:   []string{c.Line("certificates", "--serial", facts.SerialNumber, "-o", "wide")},
		})
	}
	checks := summed(bad, "no recorded certificate ends within %d days without a newer one", int(soon/(24*time.Hour)))
	if more {
		checks = append(checks, Check{Result: NotChecked, Text: "more certificates expire soon than could be checked", Next: []string{c.Line("certificates", "--expiring", "7d")}})
	}
	return checks
}

// unrecorded returns a warning if the controllers of a cluster have no space for records.
func (c *checker) unrecorded(ctx context.Context) []Check {
	found := &eventsv1.EventList{}
	// Users who may not read Events see the metric.
	if c.api.List(ctx, found, client.InNamespace(c.Controllers), client.MatchingFields{"reason": "InventoryFull"}, client.Limit(1)) != nil || len(found.Items) == 0 {
		return nil
	}
	return []Check{{Result: Warning, Text: "not all certificates are recorded, because the inventory is full: " + found.Items[0].Note, Next: []string{"Raise inventory.maxMiB of 'certplane controllers'."}}}
}

// endingSoon returns records of certificates that expire soon, earliest first, and
// whether more exist.
func endingSoon(ctx context.Context, c client.Client, now time.Time) (found []record, more bool, err error) {
	options := &client.ListOptions{LabelSelector: listed.EndsBetween(now, now.Add(soon)), Limit: 1000}
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
