package console

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"sigs.k8s.io/controller-runtime/pkg/client"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api/inventory"
	"github.com/certplane/certplane/internal/cli/certificates"
	"github.com/certplane/certplane/internal/duration"
	"github.com/certplane/certplane/internal/policy/request"
)

// serveIssued searches the inventory of issued certificates.
func (u *user) serveIssued(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	cfg := certificates.Config{
		Name: query.Get("name"), Serial: query.Get("serial"), Fingerprint: query.Get("fingerprint"), Signer: query.Get("signer"),
		Requester: query.Get("requester"), Ended: query.Get("ended") != "", Limit: rowsOnPage, Now: u.now,
	}
	// A search also finds the server's own certificates.
	cfg.WithoutOwn = query.Get("own") == "" && !cfg.Searches()
	v := view{
		Title: "Issued certificates", Lead: "All issued certificates of all signers. The first to end come first.",
		Filters: []filter{
			{Name: "name", Label: "Name", Value: cfg.Name, Hint: "web.example.com"},
			{Name: "expiring", Label: "Ends within", Value: query.Get("expiring"), Hint: "7d"},
			{Name: "signer", Label: "Signer", Value: cfg.Signer},
			{Name: "requester", Label: "Requester", Value: cfg.Requester},
			{Name: "serial", Label: "Serial number", Value: cfg.Serial},
			{Name: "ended", Label: "Show", Value: query.Get("ended"), Options: []option{{"", "Valid"}, {"yes", "Ended ones, too"}}},
			{Name: "own", Label: "Issued for", Value: query.Get("own"), Options: []option{{"", "Others"}, {"yes", "The server itself, too"}}},
		},
	}
	if within := query.Get("expiring"); within != "" {
		var err error
		if cfg.Expiring, err = duration.Parse(within); err != nil || cfg.Expiring <= 0 {
			v.Problem = fmt.Sprintf("Ends within: %q is not a time such as 7d or 12h.", within)
			u.write(w, r, http.StatusBadRequest, v)
			return
		}
	}
	found, more, err := certificates.Find(r.Context(), u.api, cfg)
	switch {
	case errors.Is(err, certificates.ErrNoInventory):
		v.Problem = "This API server has no inventory of issued certificates; 'certplane serve' has one."
		u.show(w, r, v)
		return
	case err != nil:
		u.failCall(w, r, "", err)
		return
	}
	t := table{Title: "Certificates", None: "No certificate was found.", Columns: []string{"Names", "Ends", "In", "Signer", "Requester", "Approved by", "Serial number"}}
	for i := range found {
		t.Rows = append(t.Rows, u.recordRow(&found[i]))
	}
	if more {
		t.Problem = fmt.Sprintf("There are more than these %d: search for some of them.", len(found))
	}
	v.Tables = []table{t}
	v.watched = []string{"issuedcertificates." + inventoryv1alpha1.GroupVersion.Group}
	u.show(w, r, v)
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

// serveRecord shows the record of one certificate.
func (u *user) serveRecord(w http.ResponseWriter, r *http.Request) {
	record, name := &inventoryv1alpha1.IssuedCertificate{}, r.PathValue("name")
	if len(content.IsPathSegmentName(name)) > 0 {
		u.fail(w, r, http.StatusNotFound, "No record can have the name "+name+".")
		return
	}
	if err := u.api.Get(r.Context(), client.ObjectKey{Name: name}, record); err != nil {
		u.failCall(w, r, "reading the record", err)
		return
	}
	facts := &record.Certificate
	v := view{Title: "Certificate " + facts.SerialNumber, Lead: "It is valid until " + at(facts.NotAfter.Time) + "."}
	if facts.NotAfter.Time.Before(u.now) {
		v.Lead = "It has ended " + u.ago(&facts.NotAfter.Time) + "."
	}
	v.addSection("Certificate", []row{
		texts("subject", facts.Subject), texts("names", namesOf(facts)), texts("usages", strings.Join(facts.Usages, ", ")), texts("key", facts.KeyType),
		texts("issuer", facts.Issuer), texts("serial number", facts.SerialNumber), texts("SHA-256", facts.Fingerprint),
		texts("valid", at(facts.NotBefore.Time)+" to "+at(facts.NotAfter.Time)),
	})
	if r := record.Revocation; r != nil {
		v.addSection("Revoked", []row{texts("at", at(r.Time.Time)), texts("reason", r.Reason), texts("by", r.By)})
	}
	of := record.Request
	rows := []row{
		texts("signer", record.SignerName), texts("request", strings.TrimSpace(of.Kind+" "+request.FullName(of.Namespace, of.Name))), texts("requester", of.Requester),
	}
	if record.Use != "" {
		rows = append(rows, texts("for the server itself", record.Use))
	}
	for resource, kind := range kinds {
		if kind.Kind == of.Kind && kind.Group == of.APIGroup {
			rows[1][1].Link = u.linkTo(resource, of.Namespace, of.Name)
		}
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
		v.addSection("Where it is", []row{texts(l.Kind, request.FullName(l.Namespace, l.Name), l.Node)})
	}
	u.show(w, r, v)
}

func namesOf(facts *inventoryv1alpha1.CertificateFacts) string {
	all := inventory.AlternativeNames(facts)
	if facts.OmittedNames > 0 {
		all = append(all, fmt.Sprintf("and %d more", facts.OmittedNames))
	}
	return strings.Join(all, ", ")
}
