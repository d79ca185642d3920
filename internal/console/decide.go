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
	"github.com/certplane/certplane/internal/cli/decide"
	"github.com/certplane/certplane/internal/cli/inbox"
	"github.com/certplane/certplane/internal/cli/print"
	"github.com/certplane/certplane/internal/explain"
	"github.com/certplane/certplane/internal/rights"
)

// decisionForm approves or denies a request. Forbidden says why the user may not; the
// form then has no fields.
type decisionForm struct {
	Resource, Namespace, Name string
	UID                       types.UID
	Forbidden, Command        string
	Message                   string
}

// decidable returns the kind of requests that a resource has, if people decide about them.
func decidable(resource string) (k requestKind, ok bool) {
	return findKind(func(k requestKind) bool { return resourceOf(k.Kind) == resource && k.Name != rights.PodRequests.Name })
}

// decision returns the form for a request; nil if there is nothing to decide.
func (u *user) decision(ctx context.Context, resource string, found *unstructured.Unstructured) (*decisionForm, error) {
	of, ok := decidable(resource)
	if !ok {
		return nil, nil
	}
	object := of.object.DeepCopyObject().(client.Object)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, object); err != nil {
		return nil, fmt.Errorf("reading the request: %w", err)
	}
	if state, _ := explain.StateOf(object); state != certificates.Pending {
		return nil, nil
	}
	may, err := explain.NewApprover(u.api).May(ctx, object)
	if err != nil {
		return nil, err
	}
	form := &decisionForm{Resource: resource, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID()}
	if may == explain.No {
		form.Forbidden = "You may not decide about this request. To see who may:"
		form.Command = print.CommandLine(append([]string{"certplane", "who-can", "approve", inbox.SignerOf(object)}, u.cfg.Flags...)...)
	}
	return form, nil
}

// verdicts are the decisions that the form sends, each with the message of people who
// give none.
var verdicts = map[string]decide.Decision{
	"approve": {Kind: cmv1.CertificateRequestConditionApproved, Reason: "ApprovedInConsole", Message: "Approved in the console"},
	"deny":    {Kind: cmv1.CertificateRequestConditionDenied, Reason: "DeniedInConsole", Message: "Denied in the console"},
}

// serveDecision writes the decision that the form has sent.
func (u *user) serveDecision(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		u.fail(w, r, http.StatusBadRequest, "The form cannot be read: "+err.Error())
		return
	}
	sent := r.PostForm
	of, ok := decidable(sent.Get("resource"))
	d, chosen := verdicts[sent.Get("decision")]
	if !ok || !chosen || sent.Get("name") == "" || sent.Get("uid") == "" {
		u.fail(w, r, http.StatusBadRequest, "The form must say which request to approve or to deny. Open the request, and decide there.")
		return
	}
	d.Message = cmp.Or(strings.TrimSpace(sent.Get("message")), d.Message)
	name := decide.Name{Kind: &of.Kind, Name: sent.Get("name"), UID: types.UID(sent.Get("uid"))}
	var said bytes.Buffer
	if err := decide.Requests(r.Context(), u.api, sent.Get("namespace"), []decide.Name{name}, d, u.now, &said); err != nil {
		u.refusedDecision(w, r, sent.Get("resource"), sent.Get("namespace"), name.Name, err)
		return
	}
	http.Redirect(w, r, u.linkTo(sent.Get("resource"), sent.Get("namespace"), name.Name), http.StatusSeeOther)
}

// refusedDecision shows the request as it is now, with what was refused.
func (u *user) refusedDecision(w http.ResponseWriter, r *http.Request, resource, namespace, name string, err error) {
	v, readErr := u.object(r.Context(), resource, namespace, name)
	if readErr != nil {
		u.failCall(w, r, "deciding about "+name, err)
		return
	}
	v.Problem = err.Error()
	if v.Decision != nil {
		v.Decision.Message = r.PostForm.Get("message")
	}
	u.write(w, r, http.StatusConflict, v)
}
