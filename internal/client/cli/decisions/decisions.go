// Package decisions shows approvals and denials of requests for certificates.
package decisions

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api/inventory"
	"github.com/certplane/certplane/internal/client/cli/certificates"
	"github.com/certplane/certplane/internal/client/cli/print"
)

// Config selects decisions and the output. Empty fields have no effect.
type Config struct {
	// Connect returns a client, as from certificates.Connect.
	Connect func() (client.Client, error)
	// Decision is Approved or Denied; By, Signer, Requester, Namespace, Name and Under are
	// values of fields.
	Decision, By, Signer, Requester, Namespace, Name, Under string
	// Since and Until select decisions in this time.
	Since, Until time.Time
	// Limit is the maximum number of decisions.
	Limit int
	// Output is print.Wide, print.CSV or a format of print.Formats; empty for a table.
	Output string
	Stdout io.Writer
	Stderr io.Writer
}

type decision = inventoryv1alpha1.CertificateDecision

// pageSize is the number of decisions read at once.
const pageSize = 1000

// Run shows decisions, latest first.
func Run(ctx context.Context, cfg Config) error {
	c, err := cfg.Connect()
	if err != nil {
		return err
	}
	found, more, err := cfg.find(ctx, c)
	if err != nil {
		return certificates.Refused("certificatedecisions", err)
	}
	rows := func() [][]string { return csvRows(found) }
	if err := print.List(cfg.Stdout, cfg.Output, found, func() string { return cfg.text(found) }, rows); err != nil {
		return err
	}
	if more {
		fmt.Fprintf(cfg.Stderr, "More than these %d match: raise --limit, or select fewer with other flags.\n", len(found))
	}
	return nil
}

// find returns the latest decisions, and whether more than Limit match.
func (cfg Config) find(ctx context.Context, c client.Client) (found []decision, more bool, err error) {
	options := &client.ListOptions{FieldSelector: cfg.fields().AsSelector(), Limit: pageSize}
	for {
		page := &inventoryv1alpha1.CertificateDecisionList{}
		if err := c.List(ctx, page, options); err != nil {
			return nil, false, err
		}
		found = append(found, slices.DeleteFunc(page.Items, func(d decision) bool { return !cfg.isWithin(timeOf(&d)) })...)
		slices.SortStableFunc(found, func(a, b decision) int { return timeOf(&b).Compare(timeOf(&a)) })
		if len(found) > cfg.Limit {
			found, more = found[:cfg.Limit], true
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return found, more, nil
		}
	}
}

func (cfg Config) fields() fields.Set {
	set := fields.Set{}
	for field, value := range map[string]string{
		inventoryv1alpha1.DecisionField: cfg.Decision, inventoryv1alpha1.DecisionUserField: cfg.By, inventoryv1alpha1.SignerField: cfg.Signer,
		inventoryv1alpha1.RequesterField: cfg.Requester, inventoryv1alpha1.RequestNamespaceField: cfg.Namespace,
		inventoryv1alpha1.NameField: cfg.Name, inventoryv1alpha1.UnderField: cfg.Under,
	} {
		if value != "" {
			set[field] = value
		}
	}
	if !cfg.Since.IsZero() { // a certificate is issued after the decision
		set[inventoryv1alpha1.IssuedSinceField] = cfg.Since.UTC().Format(time.RFC3339)
	}
	return set
}

// isWithin reports whether a time lies between Since and Until.
func (cfg Config) isWithin(t time.Time) bool {
	return !t.Before(cfg.Since) && (cfg.Until.IsZero() || t.Before(cfg.Until))
}

// timeOf returns the time of a decision. If it is unknown, timeOf returns the time of the
// record.
func timeOf(d *decision) time.Time {
	if d.Time != nil {
		return d.Time.UTC()
	}
	return d.CreationTimestamp.UTC()
}

func (cfg Config) text(found []decision) string {
	if len(found) == 0 {
		return "No decisions were found.\n"
	}
	header := []string{"TIME", "DECISION", "BY", "NAMES", "SIGNER", "REQUESTER", "REASON"}
	if cfg.Output == print.Wide {
		header = append(header, "REQUEST", "POLICIES", "MESSAGE")
	}
	rows := [][]string{header}
	for i := range found {
		d := &found[i]
		row := []string{
			timeOf(d).Format(time.RFC3339), d.Decision, print.OrDash(strings.Join(d.Users, ",")), print.OrDash(inventory.NamesOfDecision(d)), d.SignerName,
			print.OrDash(d.Request.Requester), print.OrDash(d.Reason),
		}
		if cfg.Output == print.Wide {
			row = append(row, certificates.RequestText(d.Request), print.OrDash(strings.Join(policiesOf(d), ",")), print.OrDash(d.Message))
		}
		rows = append(rows, row)
	}
	return print.Columns(rows)
}

func policiesOf(d *decision) []string {
	names := make([]string, len(d.Policies))
	for i, p := range d.Policies {
		names[i] = p.Name
		if p.Generation > 0 {
			names[i] += ":" + strconv.FormatInt(p.Generation, 10)
		}
	}
	return names
}

// csvRows returns all fields of decisions, one row each, after a header.
func csvRows(found []decision) [][]string {
	rows := [][]string{{
		"time", "decision", "users", "names", "omittedNames", "subject", "keyType", "signerName", "requestKind", "requestNamespace", "requestName", "requester", "reason", "message",
		"policies", "votes", "certificate",
	}}
	for i := range found {
		d := &found[i]
		votes := make([]string, len(d.Votes))
		for n, v := range d.Votes {
			votes[n] = v.User + " " + v.Time.UTC().Format(time.RFC3339)
		}
		rows = append(rows, []string{
			timeOf(d).Format(time.RFC3339), d.Decision, strings.Join(d.Users, " "), strings.Join(d.Names, " "), strconv.Itoa(int(d.OmittedNames)), d.Subject, d.KeyType,
			d.SignerName, d.Request.Kind, d.Request.Namespace, d.Request.Name, d.Request.Requester, d.Reason, d.Message,
			strings.Join(policiesOf(d), " "), strings.Join(votes, ", "), d.Certificate,
		})
	}
	return rows
}
