package console

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/client/cli/decide"
	"github.com/certplane/certplane/internal/client/cli/inbox"
	"github.com/certplane/certplane/internal/client/explain"
)

// manyPath is the path that chosen requests of a list are sent to.
const manyPath = "requests/decide"

// maxMany is the maximum number of requests in one form: those of one page.
const maxMany = rowsOnPage

// manyForm confirms a decision on many requests.
type manyForm struct {
	Action, Decision, Verb string
	Choices                []string
	Message                string
}

// choice is a request that was chosen.
type choice struct {
	kind                 requestKind
	namespace, name, uid string
}

// choiceOf returns a request in the format of forms.
func choiceOf(e inbox.Entry) string {
	return strings.Join([]string{resourceOf(e.Resource()), e.Namespace, e.Name, string(e.UID)}, "/")
}

func parseChoice(text string) (c choice, ok bool) {
	parts := strings.Split(text, "/")
	if len(parts) != 4 || parts[2] == "" || parts[3] == "" {
		return choice{}, false
	}
	kind, ok := decidable(parts[0])
	return choice{kind, parts[1], parts[2], parts[3]}, ok
}

// serveMany asks for a confirmation of the decision on chosen requests, and decides once
// it is confirmed.
func (u *user) serveMany(w http.ResponseWriter, r *http.Request) {
	d, problem := sentDecision(r)
	if d.Kind == "" {
		u.fail(w, r, http.StatusBadRequest, problem)
		return
	}
	chosen := slices.Compact(slices.Sorted(slices.Values(r.PostForm["choice"])))
	if len(chosen) == 0 || len(chosen) > maxMany {
		u.fail(w, r, http.StatusBadRequest, fmt.Sprintf("Choose requests in the list, at least one and at most %d.", maxMany))
		return
	}
	confirmed := r.PostForm.Get("confirmed") != ""
	if !confirmed || problem != "" {
		v, err := u.confirm(r, d, chosen)
		if err != nil {
			u.failCall(w, r, "reading the requests", err)
			return
		}
		code := http.StatusOK
		if confirmed {
			v.Problem, code = problem, http.StatusBadRequest
		}
		u.write(w, r, code, v)
		return
	}
	u.decideMany(w, r, d, chosen)
}

// confirm returns the page that asks for confirmation. It omits requests for which the
// decision would be refused or useless, and shows the reason.
func (u *user) confirm(r *http.Request, d decide.Decision, chosen []string) (view, error) {
	all, err := u.verdicts(r.Context())
	if err != nil {
		return view{}, err
	}
	form := &manyForm{Action: u.cfg.Base + manyPath, Decision: r.PostForm.Get("decision"), Verb: "Approve", Message: typed(r)}
	if d.Kind == cmv1.CertificateRequestConditionDenied {
		form.Verb = "Deny"
	}
	in := table{Columns: requestColumns}
	out := table{Title: "Left out", Columns: []string{"Request", "Why"}}
	for _, text := range chosen {
		e, why := u.prospect(r, all, text, d)
		if why != "" {
			out.Rows = append(out.Rows, texts(calledOr(e, text), why))
			continue
		}
		in.Rows = append(in.Rows, u.requestRow(e))
		form.Choices = append(form.Choices, text)
	}
	in.Title = form.Verb + " " + counted(len(in.Rows), "request")
	in.None = "None of them can be decided like this."
	v := view{Title: in.Title + "?", Lead: "A decision is final.", Tables: []table{in}, Back: u.cfg.Base + requestsPath}
	if len(in.Rows) > 0 {
		v.Many = form
	}
	if len(out.Rows) > 0 {
		v.Tables = append(v.Tables, out)
	}
	return v, nil
}

// calledOr returns the name of a request that could be read, or the text of the form.
func calledOr(e inbox.Entry, text string) string {
	if e.Name != "" {
		return e.Called()
	}
	return text
}

// prospect reads a chosen request. why is the reason for omitting it; empty without one.
func (u *user) prospect(r *http.Request, all *explain.Verdicts, text string, d decide.Decision) (e inbox.Entry, why string) {
	c, ok := parseChoice(text)
	if !ok {
		return e, "it is not a request"
	}
	object := c.kind.of.New()
	if err := u.api.Get(r.Context(), client.ObjectKey{Namespace: c.namespace, Name: c.name}, object); err != nil {
		return e, err.Error()
	}
	e, _ = inbox.EntryOf(object)
	if string(e.UID) != c.uid {
		return e, "another request now has its name"
	}
	if e.State != string(certificates.Pending) {
		return e, "it is " + e.State + " already"
	}
	verdict, err := all.Of(r.Context(), object)
	e.YouMayDecide = verdict.May
	switch {
	case err != nil:
		return e, err.Error()
	case verdict.May == explain.No:
		return e, "you may not decide about it"
	case d.Kind == cmv1.CertificateRequestConditionDenied:
		return e, ""
	case verdict.Voted:
		return e, "you have approved it; others are missing"
	case verdict.Refusal != "":
		return e, verdict.Refusal
	case verdict.Objection != "":
		return e, "its signer would refuse it: " + verdict.Objection
	}
	return e, ""
}

// decideMany decides requests, and shows the outcome of each.
func (u *user) decideMany(w http.ResponseWriter, r *http.Request, d decide.Decision, chosen []string) {
	t := table{Title: "Decisions", Columns: []string{"Request", "State", "Message"}}
	done := 0
	for _, text := range chosen {
		c, ok := parseChoice(text)
		if !ok {
			t.Rows = append(t.Rows, texts(text, "No", "it is not a request"))
			continue
		}
		result := texts(c.kind.Short+"/"+c.name, string(d.Kind), d.Message)
		result[0].Link = u.linkTo(resourceOf(c.kind.Kind), c.namespace, c.name)
		said, err := u.decide(r.Context(), c.kind, c.namespace, c.name, c.uid, d)
		switch {
		case err != nil:
			result[1], result[2].Text = cell{Text: "not decided", State: "bad"}, err.Error()
		case strings.Contains(said, "waits for"):
			result[1], result[2].Text = cell{Text: "Pending", State: "waiting"}, strings.TrimSpace(said)
			done++
		default:
			done++
		}
		t.Rows = append(t.Rows, result)
	}
	v := view{Title: string(d.Kind), Tables: []table{t}, Back: u.cfg.Base + requestsPath}
	if done > 0 {
		v.Done = fmt.Sprintf("%d of %s decided.", done, counted(len(chosen), "request"))
	}
	if done < len(chosen) {
		v.Problem = fmt.Sprintf("%s could not be decided; the table shows the reasons.", counted(len(chosen)-done, "request"))
	}
	u.show(w, r, v)
}
