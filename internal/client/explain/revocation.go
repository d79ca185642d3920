package explain

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api/inventory"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

var (
	recordKind = kind{
		verb: "issuedcertificate", noun: "record", resource: "issuedcertificates." + inventoryv1alpha1.GroupVersion.Group,
		deleted: "A record is deleted some time after the end of its certificate. ",
		install: []Step{{Text: "'certplane serve' has an inventory of issued certificates."}},
		new:     func() client.Object { return &inventoryv1alpha1.IssuedCertificate{} },
	}
	revocationKind = kind{
		verb: "revocation", noun: "Revocation", resource: "revocations." + v1alpha1.GroupName,
		install: []Step{{Text: "'certplane serve' serves this kind; in a cluster, 'certplane manifests' installs it."}},
		new:     func() client.Object { return &v1alpha1.Revocation{} },
	}
)

// Record explains the record of a certificate in the inventory. It is named as the record, or
// by the fingerprint of the certificate.
func Record(ctx context.Context, api Reader, q Query) (ObjectExplanation, error) {
	record := &inventoryv1alpha1.IssuedCertificate{}
	if err := recordKind.get(ctx, api, q, record); err != nil {
		return ObjectExplanation{}, err
	}
	facts, of := &record.Certificate, record.Request
	e := explainedObject(record)
	e.Content = fields("names", inventory.ShownNames(facts), "subject", facts.Subject, "issuer", facts.Issuer, "serial number", facts.SerialNumber, "SHA-256", facts.Fingerprint,
		"valid", utc(&facts.NotBefore)+" to "+utc(&facts.NotAfter), "signer", record.SignerName, "for the server", record.Use,
		"request", strings.TrimSpace(of.Kind+" "+request.FullName(of.Namespace, of.Name)), "requester", of.Requester, "revocation list", listAt(ctx, api, facts))
	e.Verdict = "The certificate of " + inventory.ShownNames(facts)
	state := inventory.State(record, q.Now)
	switch r := revocationOf(record); {
	case r != nil && r.Name != "":
		e.Verdict += " is revoked since " + r.String()
		e.Next = append(e.Next, step("To see the whole act of revocation:", q.CertplaneOn([]string{r.Name}, "explain", revocationKind.verb)))
		return e, e.checkRevocation(ctx, api, r)
	case !facts.NotAfter.After(q.Now):
		e.Verdict += " ended on " + utc(&facts.NotAfter)
	case state == inventory.Revoked:
		e.Verdict += " is accepted until " + utc(&facts.NotAfter) + ", although a client of the ACME server has revoked it: " + r.String()
		e.Checks = []Check{{"refused", No, "its endpoint only notes revocations (spec.revocation: Record)"}, {v1alpha1.RevocationListed, No, "no revocation list contains it"}}
		e.Next = append(e.Next, q.revokeStep("To let this server refuse it permanently:", facts))
	default:
		e.Verdict += " is valid until " + utc(&facts.NotAfter)
		e.Next = append(e.Next, q.revokeStep("To revoke it permanently:", facts))
	}
	return e, nil
}

// listAt returns where everybody gets the revocation list of a certificate's CA; empty if that is
// unknown. Certificates name it unless they are short-lived, or older than the setting.
func listAt(ctx context.Context, api Reader, of *inventoryv1alpha1.CertificateFacts) string {
	lists := &inventoryv1alpha1.RevocationListList{}
	if err := api.List(ctx, lists); err != nil || of.AuthorityKeyID == "" {
		return ""
	}
	for _, list := range lists.Items {
		ca, err := pki.ParseFirst([]byte(list.CACertificates))
		if err == nil && strings.EqualFold(hex.EncodeToString(ca.SubjectKeyId), of.AuthorityKeyID) {
			return list.URL
		}
	}
	return ""
}

// revokeStep returns the step that revokes a certificate.
func (q Query) revokeStep(text string, facts *inventoryv1alpha1.CertificateFacts) Step {
	return step(text, q.Certplane("revoke", "--fingerprint", facts.Fingerprint, "--reason", "..."))
}

// checkRevocation adds who refuses a certificate.
func (e *ObjectExplanation) checkRevocation(ctx context.Context, api Reader, r *Revocation) error {
	e.Checks = []Check{{"refused", Yes, "this server refuses the certificate since " + r.Time.Format(time.RFC3339)}}
	object, unlisted := &v1alpha1.Revocation{}, Check{v1alpha1.RevocationListed, Unknown, "the Revocation has been deleted"}
	switch found, err := exists(ctx, api, client.ObjectKey{Name: r.Name}, object); {
	case err != nil:
		return readError("reading the Revocation", err)
	case found == Unknown:
		unlisted.Message = mayNotRead("get", revocationKind.resource, "")
	case found != No:
		unlisted = Check{v1alpha1.RevocationListed, Open, "no controller has said yet whether revocation lists contain it"}
	}
	meta.RemoveStatusCondition(&object.Status.Conditions, v1alpha1.RevocationRecorded)
	if meta.FindStatusCondition(object.Status.Conditions, v1alpha1.RevocationListed) == nil {
		e.Checks = append(e.Checks, unlisted)
	}
	checks, _ := conditionChecks(object.Status.Conditions, r.Name)
	e.Checks = append(e.Checks, checks...)
	return nil
}

// RevocationObject explains a Revocation.
func RevocationObject(ctx context.Context, api Reader, q Query) (ObjectExplanation, error) {
	o := &v1alpha1.Revocation{}
	if err := revocationKind.get(ctx, api, q, o); err != nil {
		return ObjectExplanation{}, err
	}
	e, by := explainedObject(o), ""
	if o.Status.RequestedBy != nil {
		by = o.Status.RequestedBy.Username
	}
	e.Content = fields("reason", string(o.Spec.Reason), "message", o.Spec.Message, "by", by, "at", utc(o.Status.Time),
		"revoked", fmt.Sprint(o.Status.Recorded), "revoked before", fmt.Sprint(o.Status.AlreadyRevoked), "last one ends", utc(o.Status.Ends), "certificates", named(o.Spec.Certificates))
	if s := o.Spec.Selection; s != nil {
		text, err := json.Marshal(s)
		if err != nil {
			return ObjectExplanation{}, err
		}
		e.Content = append(e.Content, fields("selection", string(text), "at most", fmt.Sprint(o.Spec.AtMost))...)
	}
	checks, _ := conditionChecks(o.Status.Conditions, o.Name)
	e.Checks = append(e.Checks, checks...)
	switch {
	case o.Status.Time == nil:
		e.Verdict = o.Name + " has not been recorded: certificates are not revoked yet"
	case o.Status.Recorded == 0:
		e.Verdict = o.Name + " has revoked no certificate: all were revoked before"
	default:
		e.Verdict = o.Name + fmt.Sprintf(" has revoked %d of %d certificates: ", o.Status.Recorded, o.Status.Recorded+o.Status.AlreadyRevoked) +
			Revocation{Time: o.Status.Time.UTC(), Reason: string(o.Spec.Reason), By: by}.String()
	}
	e.Next = q.afterRevocation(o)
	return e, e.report(ctx, api, o)
}

// afterRevocation returns the next steps after a revocation.
func (q Query) afterRevocation(o *v1alpha1.Revocation) []Step {
	var steps []Step
	if c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.RevocationListed); c != nil && c.Status != metav1.ConditionTrue {
		steps = append(steps, Step{Text: "Programs that do not ask this server accept the certificates until a revocation list contains them. The present state: " + c.Message})
	}
	if c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.RevocationPassedOn); c != nil && c.Status == metav1.ConditionFalse {
		steps = append(steps, Step{Text: "Who asks the CA of the issuer is told that the certificates are valid. Why it has not revoked them: " + c.Message})
	}
	if o.Spec.Reason == v1alpha1.RevocationReason(pki.ReasonKeyCompromise.String()) {
		steps = append(steps, Step{Text: "The keys must not be used again: where a certificate is still needed, request another one with a new key."})
	}
	if all := o.Spec.Certificates; len(all) == 1 && all[0].Fingerprint != "" {
		steps = append(steps, step("To see the certificate:", q.Certplane("explain", recordKind.verb, all[0].Fingerprint)))
	} else {
		steps = append(steps, step("To list revoked certificates:", q.Certplane("certificates", "--revoked")))
	}
	return append(steps, Step{Text: "A revocation cannot be undone. This object can be deleted when the last certificate has ended."})
}

// maxNamed is the maximum number of certificates of a Revocation that are shown.
const maxNamed = 10

// named returns the certificates that a Revocation names.
func named(all []v1alpha1.RevokedCertificate) string {
	var found []string
	for _, c := range all[:min(len(all), maxNamed)] {
		text := cmp.Or(c.Fingerprint, c.SerialNumber)
		if cert, err := pki.ParseFirst([]byte(c.PEM)); err == nil {
			text = pki.Fingerprint(cert)
		}
		found = append(found, text)
	}
	if more := len(all) - len(found); more > 0 {
		found = append(found, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(found, " ")
}

// revocationOf returns the revocation of a record; nil if there is none.
func revocationOf(record *inventoryv1alpha1.IssuedCertificate) *Revocation {
	r := record.Revocation
	if r == nil {
		return nil
	}
	return &Revocation{r.Time.UTC(), r.Reason, r.By, r.Name}
}

// utc returns a time in UTC; empty if there is none.
func utc(t *metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
