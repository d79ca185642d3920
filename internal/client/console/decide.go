package console

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/client/cli/decide"
	"github.com/certplane/certplane/internal/client/cli/inbox"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// decisionForm approves or denies a request. It is sent to the address of the request, so
// that a refusal is shown there.
type decisionForm struct {
	UID types.UID
	// Forbidden explains that the user may not decide, and Command lists the users that may; the
	// form then has no fields.
	Forbidden, Command string
	// Obstacle explains why an approval would be refused or would not count; the form then
	// has no button that approves. Warning explains why the signer would refuse the
	// request; approving then takes a second step.
	Obstacle, Warning string
	// Slots are the approvals that policies require, one line each.
	Slots []slot
	// Message is what the user has typed, Denying that it was for a denial.
	Message string
	Denying bool
}

// slot is an approval that policies require.
type slot struct {
	Text   string
	Filled bool
}

// decidable returns the kind of request of a resource, if people decide it.
func decidable(resource string) (k requestKind, ok bool) {
	return findKind(func(k requestKind) bool { return resourceOf(k.Kind) == resource && k.of.Decision != nil })
}

// verdicts returns an explain.Verdicts for the user.
func (u *user) verdicts(ctx context.Context) (*explain.Verdicts, error) {
	me, err := u.api.WhoAmI(ctx)
	if err != nil {
		return nil, err
	}
	who := quorum.Person{Username: me.Username, UID: me.UID, Groups: me.Groups}
	if len(me.Extra) > 0 {
		who.Extra = map[string][]string{}
		for key, values := range me.Extra {
			who.Extra[key] = values
		}
	}
	return explain.NewVerdicts(ctx, u.api, who, u.query()), nil
}

// query returns the query for explanations and commands that the user can type.
func (u *user) query() explain.Query {
	return explain.Query{Kubectl: u.cfg.Kubectl, Flags: u.cfg.Flags, Now: u.now}
}

// requestOf returns the request that was read, if people decide its kind.
func requestOf(resource string, found *unstructured.Unstructured) (client.Object, error) {
	of, ok := decidable(resource)
	if !ok {
		return nil, nil
	}
	object := of.of.New()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, object); err != nil {
		return nil, fmt.Errorf("reading the request: %w", err)
	}
	return object, nil
}

// decision returns the form for a pending request.
func (u *user) decision(ctx context.Context, object client.Object) (*decisionForm, error) {
	all, err := u.verdicts(ctx)
	if err != nil {
		return nil, err
	}
	verdict, err := all.Of(ctx, object)
	if err != nil {
		return nil, err
	}
	form := &decisionForm{UID: object.GetUID(), Slots: slotsOf(verdict)}
	switch {
	case verdict.May == explain.No:
		form.Forbidden = "You may not decide this request. To list the users who may:"
		form.Command = print.CommandLine(print.Command([]string{"certplane", "who-can", "approve"}, []string{inbox.SignerOf(object)}, u.cfg.Flags...)...)
	case verdict.Voted:
		form.Obstacle = "You have approved it. More approvals are needed. You may still deny it."
	case verdict.NotAPerson:
		form.Obstacle = "You cannot approve it: " + verdict.Refusal + ". " + u.loginOfPeople()
	case verdict.Refusal != "":
		form.Obstacle = "An approval would be refused: " + verdict.Refusal
	case verdict.Objection != "":
		form.Warning = "Its signer would refuse it: " + verdict.Objection
	}
	return form, nil
}

// loginOfPeople explains how to log in as a user who counts as a person.
func (u *user) loginOfPeople() string {
	switch login := u.cfg.Login; {
	case login == nil:
		return "Start 'certplane console' with the kubeconfig of a person."
	case login.OIDC != nil:
		return "Log in with OpenID Connect, or with the link that 'certplane console --login-link' prints for your client certificate."
	}
	return "Log in with the link that 'certplane console --login-link' prints for your client certificate."
}

// slotsOf returns the approvals that policies require of people, given ones first.
func slotsOf(v explain.Verdict) []slot {
	var slots []slot
	for _, vote := range v.Approvals {
		slots = append(slots, slot{Text: vote.Text + " (" + at(vote.Time) + ")", Filled: true})
	}
	for _, r := range v.People {
		if len(r.Missing) > 0 {
			slots = append(slots, slot{Text: fmt.Sprintf("%s (%d of %d for the policy %s)", quorum.Missing(r.Missing), r.Have, r.Count, r.Policy)})
		}
	}
	return slots
}

// decisions are the decisions that forms send, with their default messages.
var decisions = map[string]decide.Decision{
	"approve": {Kind: cmv1.CertificateRequestConditionApproved, Reason: "ApprovedInConsole", Message: "Approved in the console"},
	"deny":    {Kind: cmv1.CertificateRequestConditionDenied, Reason: "DeniedInConsole"},
}

// errNoReason says that a denial needs a reason.
const errNoReason = "A denial needs a reason. The requester sees it."

// sentDecision returns the decision of a form. problem is non-empty if the form is incomplete.
func sentDecision(r *http.Request) (d decide.Decision, problem string) {
	if err := r.ParseForm(); err != nil {
		return d, "The form cannot be read: " + err.Error()
	}
	d, chosen := decisions[r.PostForm.Get("decision")]
	if !chosen {
		return d, "The form must say whether to approve or to deny."
	}
	d.Message = cmp.Or(strings.Join(strings.Fields(r.PostForm.Get("message")), " "), d.Message)
	if d.Message == "" {
		return d, errNoReason
	}
	return d, ""
}

// serveDecision writes the decision that the form of a request has sent, and shows the
// request again. What was refused is shown at the same address, which can be read again.
func (u *user) serveDecision(w http.ResponseWriter, r *http.Request) {
	resource, namespace, name := objectOf(r)
	of, ok := decidable(resource)
	if !ok {
		u.fail(w, r, http.StatusNotFound, "Objects of the resource "+resource+" cannot be approved or denied.")
		return
	}
	d, problem := sentDecision(r)
	uid := r.PostForm.Get("uid")
	switch {
	case problem != "":
		u.refusedDecision(w, r, http.StatusBadRequest, problem)
		return
	case uid == "":
		u.refusedDecision(w, r, http.StatusBadRequest, "The form does not name the request: open the page again, and decide there.")
		return
	}
	if warning := u.warning(r, d); warning != "" {
		u.refusedDecision(w, r, http.StatusConflict, warning)
		return
	}
	if _, err := u.decide(r.Context(), of, namespace, name, uid, d); err != nil {
		u.refusedDecision(w, r, http.StatusConflict, err.Error())
		return
	}
	http.Redirect(w, r, u.linkTo(resource, namespace, name)+"?"+decidedParam+"="+r.PostForm.Get("decision"), http.StatusSeeOther)
}

// decide writes a decision, and returns the message of the command-line verb.
func (u *user) decide(ctx context.Context, of requestKind, namespace, name, uid string, d decide.Decision) (string, error) {
	var said bytes.Buffer
	err := decide.Requests(ctx, u.api, namespace, []decide.Name{{Kind: &of.Kind, Name: name, UID: types.UID(uid)}}, d, u.now, &said)
	return said.String(), err
}

// warning returns the reason why an approval needs a confirmation that the form does not
// contain.
func (u *user) warning(r *http.Request, d decide.Decision) string {
	if d.Kind != cmv1.CertificateRequestConditionApproved || r.PostForm.Get("anyway") != "" {
		return ""
	}
	v, err := u.object(r.Context(), r.PathValue("resource"), namespaceOf(r), r.PathValue("name"))
	if err != nil || v.Decision == nil { // the decision reports the reason
		return ""
	}
	return v.Decision.Warning
}

// refusedDecision shows the current request with the refusal and the message that the user
// typed.
func (u *user) refusedDecision(w http.ResponseWriter, r *http.Request, code int, problem string) {
	resource, namespace, name := objectOf(r)
	v, err := u.object(r.Context(), resource, namespace, name)
	if err != nil {
		u.failCall(w, r, "reading "+name, err)
		return
	}
	v.Problem = problem
	if v.Decision != nil {
		v.Decision.Message, v.Decision.Denying = typed(r), r.PostForm.Get("decision") == "deny"
	}
	u.write(w, r, code, v)
}

// typed returns the message that the user has typed, with the line ends that pages have.
func typed(r *http.Request) string {
	return strings.ReplaceAll(r.PostForm.Get("message"), "\r\n", "\n")
}

// decidedParam is the parameter of the page that is shown after a decision.
const decidedParam = "decided"

// done adds the result of the user's decision and a link to the next request. It reads the
// result from the request, because anyone can write an address.
func (u *user) done(ctx context.Context, v *view, decision, name string) {
	switch {
	case v.state == certificates.Denied && decision == "deny":
		v.Done = name + " is denied."
	case (v.state == certificates.Approved || v.state == certificates.Issued) && decision == "approve":
		v.Done = name + " is approved."
	case v.state == certificates.Pending && decision == "approve" && v.Decision != nil && len(v.Decision.Slots) > 0:
		v.Done = "Your approval of " + name + " is recorded. More approvals are needed."
	default:
		return
	}
	v.Back = u.cfg.Base + requestsPath
	found, err := inbox.List(ctx, u.api, inbox.Query{Limit: rowsOnPage})
	if err != nil {
		return
	}
	for _, e := range found.Requests {
		if e.YouMayDecide == explain.Yes && u.linkTo(resourceOf(e.Resource()), e.Namespace, e.Name) != v.self {
			v.NextLink = &cell{Text: e.Called(), Link: u.linkTo(resourceOf(e.Resource()), e.Namespace, e.Name)}
			return
		}
	}
}
