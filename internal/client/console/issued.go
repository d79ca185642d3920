package console

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"sigs.k8s.io/controller-runtime/pkg/client"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api/inventory"
	"github.com/certplane/certplane/internal/client/cli/certificates"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/duration"
)

// issuedFile is the path of the file with the results of a search in the inventory.
const issuedFile = "issued.csv"

// maxFile is the maximum number of certificates in that file.
const maxFile = 10_000

// issuedColumns are the columns of the table of issued certificates.
var issuedColumns = []string{"Names", "Ends", "In", "Signer", "Requester", "Approved by", "Serial number"}

// issuedSearch returns the search of an address, and the fields of its form. problem is
// non-empty if a field is invalid.
func (u *user) issuedSearch(query url.Values) (cfg certificates.Config, filters []filter, problem string) {
	cfg = certificates.Config{
		Name: query.Get("name"), Serial: query.Get("serial"), Fingerprint: query.Get("fingerprint"), Signer: query.Get("signer"),
		Requester: query.Get("requester"), Ended: query.Get("ended") != "", Limit: rowsOnPage, Now: u.now,
	}
	// A search also finds the server's own certificates.
	cfg.WithoutOwn = query.Get("own") == "" && !cfg.Searches()
	filters = []filter{
		{Name: "name", Label: "Name", Value: cfg.Name, Hint: "web.example.com"},
		{Name: "expiring", Label: "Ends within", Value: query.Get("expiring"), Hint: "7d"},
		{Name: "after", Label: "but not within", Value: query.Get("after"), Hint: "1d"},
		{Name: "signer", Label: "Signer", Value: cfg.Signer},
		{Name: "requester", Label: "Requester", Value: cfg.Requester},
		{Name: "serial", Label: "Serial number", Value: cfg.Serial},
		{Name: "ended", Label: "Show", Value: query.Get("ended"), Options: []option{{"", "Valid"}, {"yes", "Ended ones, too"}}},
		{Name: "own", Label: "Issued for", Value: query.Get("own"), Options: []option{{"", "Others"}, {"yes", "The server itself, too"}}},
	}
	if cfg.Expiring, problem = within("Ends within", query.Get("expiring")); problem != "" {
		return cfg, filters, problem
	}
	after, problem := within("but not within", query.Get("after"))
	if after > 0 {
		cfg.Selector = certificates.EndsAfter(u.now.Add(after))
	}
	return cfg, filters, problem
}

// within reads a field that limits the time until something ends; 0 if it is empty.
func within(label, text string) (length time.Duration, problem string) {
	if text == "" {
		return 0, ""
	}
	length, err := duration.Parse(text)
	if err != nil || length <= 0 {
		return 0, fmt.Sprintf("%s: %q is not a time such as 7d or 12h.", label, text)
	}
	return length, ""
}

// serveIssued searches the inventory of issued certificates.
func (u *user) serveIssued(w http.ResponseWriter, r *http.Request) {
	cfg, filters, problem := u.issuedSearch(r.URL.Query())
	v := view{
		Title: "Issued certificates", Lead: "All issued certificates of all signers. The first to end come first.",
		Filters: filters, Problem: problem,
	}
	if problem != "" {
		u.write(w, r, http.StatusBadRequest, v)
		return
	}
	found, more, err := certificates.Find(r.Context(), u.api, cfg)
	switch {
	case errors.Is(err, certificates.ErrNoInventory):
		v.Problem = "This API server has no inventory of issued certificates; 'certplane serve' has one, and in a cluster the controller record keeps one."
		u.show(w, r, v)
		return
	case err != nil:
		u.failCall(w, r, "", err)
		return
	}
	t := table{Title: "Certificates", None: "No certificate was found.", Columns: issuedColumns}
	for i := range found {
		t.Rows = append(t.Rows, u.recordRow(&found[i]))
	}
	if more {
		t.Problem = fmt.Sprintf("There are more than these %d: search for some of them.", len(found))
	}
	v.Tables = []table{t}
	v.watched = []string{"issuedcertificates." + inventoryv1alpha1.GroupVersion.Group}
	if len(found) > 0 {
		v.Download = &cell{Text: fmt.Sprintf("Download as CSV (at most %s)", thousands(maxFile)), Link: u.cfg.Base + issuedFile + "?" + r.URL.Query().Encode()}
	}
	u.show(w, r, v)
}

// serveIssuedFile serves the results of a search in the inventory as comma-separated
// values.
func (u *user) serveIssuedFile(w http.ResponseWriter, r *http.Request) {
	cfg, _, problem := u.issuedSearch(r.URL.Query())
	if problem != "" {
		u.fail(w, r, http.StatusBadRequest, problem)
		return
	}
	cfg.Limit = maxFile
	found, _, err := certificates.Find(r.Context(), u.api, cfg)
	if err != nil {
		u.failCall(w, r, "", err)
		return
	}
	var file bytes.Buffer
	if err := certificates.WriteCSV(&file, found); err != nil {
		u.fail(w, r, http.StatusInternalServerError, err.Error())
		return
	}
	download(w, "text/csv; charset=utf-8", issuedFile, file.Bytes())
}

// issuedBy returns the address of the search for all certificates of a requester.
func (u *user) issuedBy(requester string) string {
	return u.cfg.Base + "issued?" + url.Values{"requester": {requester}, "ended": {"yes"}}.Encode()
}

func (u *user) recordRow(record *inventoryv1alpha1.IssuedCertificate) row {
	facts, left := &record.Certificate, u.left(record.Certificate.NotAfter.Time)
	if record.Revocation != nil {
		left = "revoked"
	}
	r := texts(strings.ReplaceAll(inventory.ShownNames(facts), ",", ", "), at(facts.NotAfter.Time), left, record.SignerName, record.Request.Requester, approversOf(record), facts.SerialNumber)
	r[0].Link = u.cfg.Base + "issued/" + record.Name
	r[len(r)-1].State = digits
	return r
}

func at(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func approversOf(record *inventoryv1alpha1.IssuedCertificate) string {
	if record.Approval == nil {
		return ""
	}
	return strings.Join(record.Approval.Approvers, ", ")
}

// recordPage is the page of the record of one certificate.
type recordPage struct {
	*user
	record *inventoryv1alpha1.IssuedCertificate
}

// ofRecord returns the handler of an address that names a record.
func ofRecord(serve func(recordPage, http.ResponseWriter, *http.Request)) func(*user, http.ResponseWriter, *http.Request) {
	return func(u *user, w http.ResponseWriter, r *http.Request) {
		record, name := &inventoryv1alpha1.IssuedCertificate{}, r.PathValue("name")
		if len(content.IsPathSegmentName(name)) > 0 {
			u.fail(w, r, http.StatusNotFound, "No record can have the name "+name+".")
			return
		}
		if err := u.api.Get(r.Context(), client.ObjectKey{Name: name}, record); err != nil {
			u.failCall(w, r, "reading the record", err)
			return
		}
		serve(recordPage{u, record}, w, r)
	}
}

// address returns the address of the page.
func (p recordPage) address() string { return p.cfg.Base + "issued/" + url.PathEscape(p.record.Name) }

// serve shows the record.
func (p recordPage) serve(w http.ResponseWriter, r *http.Request) {
	v := p.view(r.Context())
	if r.URL.Query().Get(revokedParam) != "" && inventory.IsRevoked(p.record) {
		v.Done = "The certificate is revoked."
	}
	p.show(w, r, v)
}

func (p recordPage) view(ctx context.Context) view {
	record, facts := p.record, &p.record.Certificate
	v := view{Title: "Certificate " + facts.SerialNumber, Lead: p.lead()}
	rows := []row{
		texts("subject", facts.Subject), texts("names", namesOf(facts)), texts("usages", strings.Join(facts.Usages, ", ")), texts("key", facts.KeyType),
		texts("issuer", facts.Issuer), texts("serial number", facts.SerialNumber), texts("SHA-256", facts.Fingerprint),
		texts("valid", at(facts.NotBefore.Time)+" to "+at(facts.NotAfter.Time)),
	}
	rows[5][1].State, rows[6][1].State = copied, copied
	if p.chainOf(ctx, record) != nil {
		files := texts("files", leafFile, chainFile)
		for i := range files[1:] {
			files[i+1].Link = p.address() + "/" + files[i+1].Text
		}
		rows = append(rows, files)
	}
	v.addSection("Certificate", rows)
	v.addSection("Revoked", p.revocationRows())
	of := record.Request
	rows = []row{
		texts("signer", record.SignerName), texts("request", certificates.RequestText(of)), texts("requester", of.Requester, "all of this requester"),
	}
	rows[0][1].Link = p.linkTo(signers, "", record.SignerName)
	rows[2][2].Link = p.issuedBy(of.Requester)
	if of.Requester == "" {
		rows[2] = rows[2][:2]
	}
	if record.Use != "" {
		rows = append(rows, texts("for the server itself", record.Use))
	}
	if resource := resourceOfRecord(record); resource != "" {
		rows[1][1].Link = p.linkTo(resource, of.Namespace, of.Name)
	}
	v.addSection("Request", rows)
	if a := record.Approval; a != nil {
		rows := []row{texts("approved by", approversOf(record)), texts("reason", a.Reason), texts("message", a.Message)}
		if a.Time != nil {
			rows = append(rows, texts("at", at(a.Time.Time)))
		}
		v.addSection("Approval", rows)
	}
	if l := record.Location; l != nil {
		v.addSection("Where it is", []row{texts(inventory.LocationText(l), l.Node)})
	}
	v.Revoke, v.Next = p.toRevoke(ctx)
	return v
}

func namesOf(facts *inventoryv1alpha1.CertificateFacts) string {
	all := inventory.AlternativeNames(facts)
	if facts.OmittedNames > 0 {
		all = append(all, fmt.Sprintf("and %d more", facts.OmittedNames))
	}
	return strings.Join(all, ", ")
}

// resourceOfRecord returns the resource of the request of a record, if it has pages.
func resourceOfRecord(record *inventoryv1alpha1.IssuedCertificate) string {
	for resource, kind := range kinds {
		if kind.Kind == record.Request.Kind && kind.Group == record.Request.APIGroup {
			return resource
		}
	}
	return ""
}

// The files of a certificate.
const leafFile, chainFile = "certificate.pem", "chain.pem"

// serveFile serves the certificate, alone or with its chain.
func serveFile(file string) func(recordPage, http.ResponseWriter, *http.Request) {
	return func(p recordPage, w http.ResponseWriter, r *http.Request) {
		chain := p.chainOf(r.Context(), p.record)
		switch {
		case chain == nil:
			p.fail(w, r, http.StatusNotFound, "The certificate is no longer stored, or you may not read its request: the inventory contains only its record.")
			return
		case file == leafFile:
			chain = chain[:1]
		}
		download(w, "application/x-pem-file", p.record.Certificate.SerialNumber+"-"+file, pki.EncodeCertificates(chain...))
	}
}

// chainOf returns the certificate of a record with its chain, from its request; nil if
// the request is gone, now has another certificate, or may not be read.
func (u *user) chainOf(ctx context.Context, record *inventoryv1alpha1.IssuedCertificate) []*x509.Certificate {
	k, ok := findKind(func(k requestKind) bool { return resourceOf(k.Kind) == resourceOfRecord(record) })
	if !ok {
		return nil
	}
	object := k.of.New()
	if u.api.Get(ctx, client.ObjectKey{Namespace: record.Request.Namespace, Name: record.Request.Name}, object) != nil {
		return nil
	}
	chain, err := pki.ParseChain(k.of.Certificate(object))
	if err != nil || len(chain) == 0 || pki.Fingerprint(chain[0]) != record.Certificate.Fingerprint {
		return nil
	}
	return chain
}
