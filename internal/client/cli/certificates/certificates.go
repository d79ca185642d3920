// Package certificates shows the inventory of issued certificates.
package certificates

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	recordsv1alpha1 "github.com/certplane/certplane/api/records/v1alpha1"
	"github.com/certplane/certplane/internal/api/inventory"
	"github.com/certplane/certplane/internal/api/served"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	records "github.com/certplane/certplane/internal/inventory"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/rights"
)

// Config selects certificates and the output. Empty fields have no effect.
type Config struct {
	// Connect returns a client, as from Connect.
	Connect func() (client.Client, error)
	// Expiring selects certificates that expire within this time.
	Expiring time.Duration
	// Ended also selects expired certificates.
	Ended bool
	// RecordName is the name of the record, RequestName that of the request.
	RecordName, RequestName string
	// Matches selects among the certificates that the other fields select; nil selects all.
	Matches func(*inventoryv1alpha1.IssuedCertificate) bool
	// Name, Serial, Fingerprint, KeyFingerprint, Signer, Requester and Namespace are values of
	// fields.
	Name, Serial, Fingerprint, KeyFingerprint, Signer, Requester, Namespace string
	// Under is a domain; Approver, KeyType and SignatureAlgorithm are values of fields;
	// WeakerThan is a type of key; it selects certificates with smaller keys.
	Under, Approver, KeyType, WeakerThan, SignatureAlgorithm string
	// LongerThan selects certificates that are valid for longer than this.
	LongerThan time.Duration
	// Since and Until select certificates issued in this time.
	Since, Until time.Time
	// Revoked selects certificates with a recorded revocation.
	Revoked bool
	// WithoutOwn excludes certificates that the server has issued for itself.
	WithoutOwn bool
	// Selector is a label selector.
	Selector labels.Selector
	// Limit is the maximum number of certificates.
	Limit int
	// Output is print.Wide or another format of package print, empty for a table.
	Output string
	Now    time.Time
	Stdout io.Writer
	Stderr io.Writer
}

// pageSize is the number of certificates read at once.
const pageSize = 1000

// Connect is ConnectIn for the usual namespace.
func Connect(config *rest.Config) (client.Client, error) {
	return ConnectIn(config, rights.ClusterNamespace)
}

// ConnectIn returns a client for the inventory, for Revocations and for ConfigMaps. If the server
// has no inventory, the client reads the CertificatePacks in the namespace of the controllers.
func ConnectIn(config *rest.Config, controllers string) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(inventoryv1alpha1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme), recordsv1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("making the scheme: %w", err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"IssuedCertificate", "CertificateDecision", "RevocationList"} {
		mapper.Add(inventoryv1alpha1.GroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	mapper.Add(v1alpha1.GroupVersion.WithKind("Revocation"), meta.RESTScopeRoot)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	mapper.Add(recordsv1alpha1.GroupVersion.WithKind("CertificatePack"), meta.RESTScopeNamespace)
	connected, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("connecting to the server: %w", err)
	}
	return records.Search(connected, controllers, time.Now), nil
}

// Run shows certificates, earliest expiry first.
func Run(ctx context.Context, cfg Config) error {
	c, err := cfg.Connect()
	if err != nil {
		return err
	}
	found, more, err := Find(ctx, c, cfg)
	if err != nil {
		return err
	}
	rows := func() [][]string { return csvRows(found) }
	if err := print.List(cfg.Stdout, cfg.Output, found, func() string { return cfg.text(found) }, rows); err != nil {
		return err
	}
	if cfg.WithoutOwn && len(found) == 0 {
		fmt.Fprintln(cfg.Stderr, "Certificates that the server has issued for itself are not shown: add --own.")
	}
	if more {
		fmt.Fprintf(cfg.Stderr, "More than these %d match: raise --limit, or select fewer with other flags.\n", len(found))
	}
	return nil
}

// Find returns certificates, earliest expiry first, and whether more than cfg.Limit
// match. It uses only the fields of cfg that select certificates.
func Find(ctx context.Context, c client.Client, cfg Config) (found []inventoryv1alpha1.IssuedCertificate, more bool, err error) {
	if found, more, err = cfg.list(ctx, c, cfg.selector()); err != nil {
		return nil, false, Refused("issuedcertificates", err)
	}
	slices.SortStableFunc(found, func(a, b inventoryv1alpha1.IssuedCertificate) int {
		return cmp.Or(a.Certificate.NotAfter.Compare(b.Certificate.NotAfter.Time), strings.Compare(a.Name, b.Name))
	})
	if len(found) > cfg.Limit {
		found, more = found[:cfg.Limit], true
	}
	return found, more, nil
}

// selector returns Selector with the range of expiry times.
func (cfg Config) selector() labels.Selector {
	selector := cfg.Selector
	if selector == nil {
		selector = labels.Everything()
	}
	restrict := func(more labels.Selector) {
		requirements, _ := more.Requirements()
		selector = selector.Add(requirements...)
	}
	if !cfg.Ended {
		restrict(EndsAfter(cfg.Now))
	}
	if cfg.Expiring > 0 {
		restrict(ends(selection.LessThan, cfg.Now.Add(cfg.Expiring)))
	}
	return selector
}

// fields returns the required values of fields.
func (cfg Config) fields() fields.Set {
	set := fields.Set{}
	for field, value := range map[string]string{
		inventoryv1alpha1.NameField: cfg.Name, inventoryv1alpha1.SerialField: cfg.Serial, inventoryv1alpha1.FingerprintField: cfg.Fingerprint,
		inventoryv1alpha1.SignerField: cfg.Signer, inventoryv1alpha1.RequesterField: cfg.Requester, inventoryv1alpha1.RequestNamespaceField: cfg.Namespace,
		inventoryv1alpha1.RequestNameField: cfg.RequestName, inventory.NameOfRecord: cfg.RecordName,
		inventoryv1alpha1.UnderField: cfg.Under, inventoryv1alpha1.DecisionUserField: cfg.Approver, inventoryv1alpha1.KeyTypeField: cfg.KeyType,
		inventoryv1alpha1.WeakerThanField: cfg.WeakerThan, inventoryv1alpha1.SignatureAlgorithmField: cfg.SignatureAlgorithm,
		inventoryv1alpha1.KeyFingerprintField: cfg.KeyFingerprint,
	} {
		if value != "" {
			set[field] = value
		}
	}
	if cfg.LongerThan > 0 {
		set[inventoryv1alpha1.LongerThanField] = cfg.LongerThan.String()
	}
	for field, at := range map[string]time.Time{inventoryv1alpha1.IssuedSinceField: cfg.Since, inventoryv1alpha1.IssuedBeforeField: cfg.Until} {
		if !at.IsZero() {
			set[field] = at.UTC().Format(time.RFC3339)
		}
	}
	return set
}

// Searches reports whether cfg selects by names, numbers, keys, signers or requesters. Such a
// search includes the server's own certificates.
func (cfg Config) Searches() bool {
	return cfg.Name+cfg.Under+cfg.Serial+cfg.Fingerprint+cfg.KeyFingerprint+cfg.Signer+cfg.Requester != ""
}

// list returns the certificates, and whether more than Limit match. Days are in order; a
// day can contain more than are shown.
func (cfg Config) list(ctx context.Context, c client.Client, selector labels.Selector) (found []inventoryv1alpha1.IssuedCertificate, more bool, err error) {
	options := &client.ListOptions{LabelSelector: selector, FieldSelector: cfg.fields().AsSelector(), Limit: pageSize}
	for {
		page := &inventoryv1alpha1.IssuedCertificateList{}
		if err := c.List(ctx, page, options); err != nil {
			return nil, false, err
		}
		for _, record := range page.Items {
			if cfg.takes(&record) {
				found = append(found, record)
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return found, false, nil
		}
		if len(found) > cfg.Limit && dayOf(found[len(found)-1]) > dayOf(found[cfg.Limit]) {
			return found, true, nil // the remaining certificates expire later
		}
	}
}

// takes reports whether a record, which the server has selected, is shown.
func (cfg Config) takes(record *inventoryv1alpha1.IssuedCertificate) bool {
	return (!cfg.WithoutOwn || record.Use == "") && (!cfg.Revoked || record.Revocation != nil) && (cfg.Matches == nil || cfg.Matches(record))
}

func dayOf(record inventoryv1alpha1.IssuedCertificate) int64 {
	return record.Certificate.NotAfter.Unix() / int64(24*time.Hour/time.Second)
}

// ErrNoInventory reports that the server keeps no records.
var ErrNoInventory = errors.New("the API server has no inventory")

// Refused explains why the server did not list a resource of the inventory.
func Refused(resource string, err error) error {
	doing := "listing " + resource
	switch {
	case served.IsMissing(err):
		return exit.WithNext(fmt.Errorf("%s: %w", doing, ErrNoInventory),
			"'certplane serve' has one; in a cluster, 'certplane controllers' keeps one with the controller record.")
	case apierrors.IsForbidden(err):
		return exit.WithNext(fmt.Errorf("%s: %w", doing, err),
			"It requires list on "+resource+".inventory.certplane.dev, in a cluster list and get on certificatepacks.records.certplane.dev, as in the ClusterRole certplane-inventory-view.")
	}
	return exit.Advise(doing, err)
}

func (cfg Config) text(found []inventoryv1alpha1.IssuedCertificate) string {
	if len(found) == 0 {
		return "No certificates were found.\n"
	}
	return cfg.Table(found)
}

// Table returns the table of certificates.
func (cfg Config) Table(found []inventoryv1alpha1.IssuedCertificate) string {
	header := []string{"NAMES", "SIGNER", "REQUESTER", "STATE", "ENDS", "IN", "SERIAL"}
	if cfg.Output == print.Wide {
		header = append(header, "ISSUED", "REQUEST", "APPROVERS", "LOCATION", "FINGERPRINT")
	}
	rows := [][]string{header}
	for i := range found {
		rows = append(rows, cfg.row(&found[i]))
	}
	return print.Columns(rows)
}

func (cfg Config) row(record *inventoryv1alpha1.IssuedCertificate) []string {
	facts := &record.Certificate
	in := "-"
	if left := facts.NotAfter.Sub(cfg.Now); left > 0 {
		in = print.Span(left)
	}
	row := []string{
		inventory.ShownNames(facts), record.SignerName, print.OrDash(record.Request.Requester), inventory.State(record, cfg.Now), facts.NotAfter.UTC().Format(time.RFC3339), in, facts.SerialNumber,
	}
	if cfg.Output != print.Wide {
		return row
	}
	approvers := "-"
	if a := record.Approval; a != nil && len(a.Approvers) > 0 {
		approvers = strings.Join(a.Approvers, ",")
	}
	of := RequestText(record.Request)
	if record.Use != "" {
		of = strings.TrimPrefix(of+": "+record.Use, ": ")
	}
	return append(row, record.CreationTimestamp.UTC().Format(time.RFC3339), of, approvers, print.OrDash(inventory.LocationText(record.Location)), facts.Fingerprint)
}

// RequestText returns the kind and the name of a request; empty if no request is
// recorded.
func RequestText(of inventoryv1alpha1.RequestFacts) string {
	return strings.TrimSpace(of.Kind + " " + request.FullName(of.Namespace, of.Name))
}

// WriteCSV writes all fields of records, one row per certificate, after a header.
func WriteCSV(out io.Writer, found []inventoryv1alpha1.IssuedCertificate) error {
	return print.WriteCSV(out, csvRows(found))
}

// csvRows returns the header and a row for each record.
func csvRows(found []inventoryv1alpha1.IssuedCertificate) [][]string {
	rows := [][]string{{
		"names", "subject", "serialNumber", "fingerprint", "issuer", "keyType", "signatureAlgorithm", "usages", "isCA", "notBefore", "notAfter", "signerName", "issued",
		"requestKind", "requestNamespace", "requestName", "requester", "approvers", "approved", "approvalReason", "approvalMessage", "location", "use",
		"revoked", "revocationReason", "revokedBy", "keyFingerprint",
	}}
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	for i := range found {
		r, facts := &found[i], &found[i].Certificate
		approval, approved := r.Approval, ""
		if approval == nil {
			approval = &inventoryv1alpha1.ApprovalFacts{}
		}
		if approval.Time != nil {
			approved = at(approval.Time.Time)
		}
		revoked, why, by := "", "", ""
		if of := r.Revocation; of != nil {
			revoked, why, by = at(of.Time.Time), of.Reason, of.By
		}
		rows = append(rows, []string{
			strings.Join(inventory.AlternativeNames(facts), " "), facts.Subject, facts.SerialNumber, facts.Fingerprint, facts.Issuer, facts.KeyType, facts.SignatureAlgorithm,
			strings.Join(facts.Usages, ", "), strconv.FormatBool(facts.IsCA), at(facts.NotBefore.Time), at(facts.NotAfter.Time), r.SignerName, at(r.CreationTimestamp.Time),
			r.Request.Kind, r.Request.Namespace, r.Request.Name, r.Request.Requester, strings.Join(approval.Approvers, " "), approved, approval.Reason, approval.Message, inventory.LocationText(r.Location), r.Use,
			revoked, why, by, facts.KeyFingerprint,
		})
	}
	return rows
}
