package console

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/inventory"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/cli/revoke"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/pki"
)

// revocations is the resource of Revocations.
const revocations = "revocations." + v1alpha1.GroupName

// revokedParam is the parameter of the page that is shown after a revocation.
const revokedParam = "revoked"

// revokeForm revokes the certificate with a fingerprint. It is confirmed by typing Name.
type revokeForm struct {
	Fingerprint, Name string
	// Warning says why the user should think twice; empty if nothing is special.
	Warning string
	Reasons []option
	// Reason and Message are what the user has sent, if Refused.
	Reason, Message string
	Refused         bool
}

// toRevoke returns the form that revokes the certificate. It is nil if the user may not, with
// the step that finds those who may, or if there is nothing to revoke.
func (p recordPage) toRevoke(ctx context.Context) (*revokeForm, []explain.Step) {
	facts := &p.record.Certificate
	if inventory.IsRevoked(p.record) || !facts.NotAfter.After(p.now) {
		return nil, nil
	}
	if !p.mayRevoke(ctx) {
		if p.record.SignerName == "" {
			return nil, nil
		}
		return nil, []explain.Step{{
			Text:     "You may not revoke this certificate. To list the users who may:",
			Commands: [][]string{p.query().CertplaneOn([]string{p.record.SignerName}, "who-can", "revoke")},
		}}
	}
	form := &revokeForm{Fingerprint: facts.Fingerprint, Name: p.nameToType()}
	switch {
	case p.record.Use != "":
		form.Warning = "The server uses this certificate itself: " + p.record.Use + "."
	case facts.CommonName != "" && facts.CommonName == p.name:
		form.Warning = "This is a certificate of your own user: its logins end."
	}
	for _, r := range pki.Reasons() {
		if r != pki.ReasonCACompromise || facts.IsCA {
			form.Reasons = append(form.Reasons, option{r.String(), r.String() + ": " + revoke.Meaning(r)})
		}
	}
	return form, nil
}

// mayRevoke reports whether the user may revoke the certificate. It tries it out, because the
// right can come from the signer, the kind of the request, or the request itself. Users who
// may create no Revocation try nothing, so that the audit log has no refusals of them.
func (p recordPage) mayRevoke(ctx context.Context) bool {
	may, err := p.api.MayI(ctx, authorizationv1.ResourceAttributes{
		Verb: "create", Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version, Resource: "revocations",
	})
	if err != nil || !may {
		return false
	}
	err = p.revoke(ctx, client.NewDryRunClient(p.api), pki.ReasonUnspecified.String(), "The console asks whether the user may")
	return err == nil || apierrors.IsInvalid(err) // a policy may want another reason or message
}

// revoke revokes the certificate as the user.
func (p recordPage) revoke(ctx context.Context, c client.Client, reason, message string) error {
	return c.Create(ctx, &v1alpha1.Revocation{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "console-"},
		Spec: v1alpha1.RevocationSpec{
			Certificates: []v1alpha1.RevokedCertificate{{Fingerprint: p.record.Certificate.Fingerprint}},
			Reason:       v1alpha1.RevocationReason(reason), Message: message,
		},
	})
}

// nameToType returns the name of the certificate that confirms its revocation: its first
// name, or its serial number, as pages show it.
func (p recordPage) nameToType() string {
	facts := &p.record.Certificate
	for _, name := range append(inventory.AlternativeNames(facts), facts.CommonName) {
		if shown := withoutEdges(name); shown != "" {
			return shown
		}
	}
	return facts.SerialNumber
}

// withoutEdges returns a text as pages show it, with single blanks.
func withoutEdges(text string) string {
	return strings.Join(strings.Fields(string(visible([]byte(print.Printable(text))))), " ")
}

// serveRevocation revokes the certificate of a record, as its form says, and shows the record
// again.
func (p recordPage) serveRevocation(w http.ResponseWriter, r *http.Request) {
	if code, problem := p.incomplete(r); problem != "" {
		p.refusedRevocation(w, r, code, problem)
		return
	}
	message := strings.Join(strings.Fields(r.PostForm.Get("message")), " ")
	switch err := p.revoke(r.Context(), p.api, r.PostForm.Get("reason"), message); {
	case apierrors.IsUnauthorized(err):
		p.failCall(w, r, "revoking", err)
	case err != nil:
		p.refusedRevocation(w, r, http.StatusConflict, exit.Advise("revoking the certificate", err).Error())
	default:
		http.Redirect(w, r, p.address()+"?"+revokedParam+"=yes", http.StatusSeeOther)
	}
}

// incomplete returns why a form does not revoke the certificate, with the status of the
// answer; an empty problem if it does.
func (p recordPage) incomplete(r *http.Request) (code int, problem string) {
	if err := r.ParseForm(); err != nil {
		return http.StatusBadRequest, "The form cannot be read: " + err.Error()
	}
	reason := r.PostForm.Get("reason")
	switch {
	case r.PostForm.Get("fingerprint") != p.record.Certificate.Fingerprint:
		return http.StatusConflict, "The form was about another certificate: look at this one, and revoke it here. Nothing was revoked."
	case inventory.IsRevoked(p.record):
		return http.StatusConflict, "It was already revoked, by " + p.record.Revocation.By + "."
	case reason == "":
		return http.StatusBadRequest, "Choose a reason. Nothing was revoked."
	case withoutEdges(r.PostForm.Get("name")) != p.nameToType():
		return http.StatusBadRequest, "Type the name " + p.nameToType() + " to confirm. Nothing was revoked."
	}
	return http.StatusOK, ""
}

// refusedRevocation shows the record with the refusal and what the user has sent, except the
// confirmation.
func (p recordPage) refusedRevocation(w http.ResponseWriter, r *http.Request, code int, problem string) {
	v := p.view(r.Context())
	v.Problem = problem
	if v.Revoke != nil {
		v.Revoke.Reason, v.Revoke.Message, v.Revoke.Refused = r.PostForm.Get("reason"), typed(r), true
	}
	p.write(w, r, code, v)
}

// revocationRows describes the revocation of the certificate.
func (p recordPage) revocationRows() []row {
	facts := p.record.Revocation
	if facts == nil {
		return nil
	}
	rows := []row{texts("at", at(facts.Time.Time)), texts("reason", facts.Reason), texts("by", facts.By)}
	if facts.Name == "" {
		return append(rows, texts("effect", "none: the ACME server has only noted it. The certificate is accepted, and on no revocation list"))
	}
	of := texts("Revocation", facts.Name)
	of[1].Link = p.linkTo(revocations, "", facts.Name)
	return append(rows, of, texts("effect", "this server refuses the certificate. The Revocation says whether revocation lists contain it"))
}

// lead describes the state of the certificate in a sentence.
func (p recordPage) lead() string {
	ends := &p.record.Certificate.NotAfter
	switch {
	case inventory.IsRevoked(p.record):
		return "It is revoked since " + at(p.record.Revocation.Time.Time) + ": " + cmp.Or(p.record.Revocation.Reason, "no reason") + "."
	case ends.Time.Before(p.now):
		return "It has ended " + p.ago(&ends.Time) + "."
	}
	return "It is valid until " + at(ends.Time) + "."
}
