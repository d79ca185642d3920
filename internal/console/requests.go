package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/certplane/certplane/internal/cli/inbox"
	"github.com/certplane/certplane/internal/cli/print"
	"github.com/certplane/certplane/internal/explain"
	"github.com/certplane/certplane/internal/rights"
)

// requestResources are the resources of requests.
var requestResources = []string{resourceOf(rights.SigningRequests), resourceOf(rights.IssuerRequests), resourceOf(rights.PodRequests)}

func resourceOf(kind rights.Kind) string { return kind.Resource + "." + kind.Group }

// serveRequests shows the requests of all kinds, those that wait at first.
func (u *user) serveRequests(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	number := pageNumber(query)
	q := inbox.Query{
		Namespace: query.Get("namespace"), Signer: query.Get("signer"), All: query.Get("state") == "all",
		Skip: (number - 1) * rowsOnPage, Limit: rowsOnPage,
	}
	found, err := inbox.List(r.Context(), u.api, q)
	if err != nil {
		u.failCall(w, r, "", err)
		return
	}
	t := table{
		Title: "Requests that wait for a decision", None: "No request waits.", Total: found.Total,
		Columns: []string{"Request", "Namespace", "Signer", "Requester", "Subject and names", "Usages", "Age", "State", "You"},
		Problem: strings.Join(found.Missing, "; "),
	}
	if q.All {
		t.Title, t.None = "Requests", "There are no requests."
	}
	for _, e := range found.Requests {
		t.Rows = append(t.Rows, u.requestRow(e))
	}
	t.page(query, number)
	u.show(w, r, view{
		Title: "Requests", Lead: "Requests for certificates, of all kinds. Open one to see what decides about it, and to approve or deny it.",
		Tables: []table{t}, watched: requestResources,
		Filters: []filter{
			{Name: "state", Label: "Show", Value: query.Get("state"), Options: []option{{"", "Waiting"}, {"all", "All"}}},
			{Name: "signer", Label: "Signer", Value: q.Signer, Hint: "example.com/web"},
			{Name: "namespace", Label: "Namespace", Value: q.Namespace},
		},
	})
}

func (u *user) requestRow(e inbox.Entry) row {
	names := e.Names
	const most = 5
	more := ""
	if len(names) > most {
		names, more = names[:most], fmt.Sprintf(" and %d more", len(names)-most)
	}
	what := strings.Join(append(nonEmpty(e.Subject), names...), ", ") + more
	r := texts(e.Called(), e.Namespace, e.Signer, e.Requester, what, strings.Join(e.Usages, ", "), print.Span(max(0, u.now.Sub(e.Created))), e.State,
		map[explain.Result]string{explain.Yes: "may decide", explain.No: "may not decide", explain.Unknown: "unknown"}[e.YouMayDecide])
	r[0].Link = u.linkTo(resourceOf(e.Resource()), e.Namespace, e.Name)
	r[len(r)-1].State = map[explain.Result]string{explain.Yes: "good"}[e.YouMayDecide]
	return r
}

func nonEmpty(all ...string) []string {
	var kept []string
	for _, text := range all {
		if text != "" {
			kept = append(kept, text)
		}
	}
	return kept
}

// pageNumber returns the number of a page in an address; the first one if it is no number.
func pageNumber(query url.Values) int {
	const most = 1_000_000 // so that no number of rows overflows
	number, _ := strconv.Atoi(query.Get("page"))
	return min(max(1, number), most)
}

// page adds the addresses of the neighbouring pages of a table that is cut by number.
func (t *table) page(query url.Values, number int) {
	to := func(n int) string {
		query.Set("page", strconv.Itoa(n))
		return "?" + query.Encode()
	}
	if number > 1 {
		t.Previous = to(number - 1)
	}
	if t.Total > number*rowsOnPage {
		t.Next = to(number + 1)
	}
}

// ago returns how long ago a time was, or how far it is in the future.
func (u *user) ago(t *time.Time) string {
	switch {
	case t == nil:
		return ""
	case t.After(u.now):
		return "in " + print.Span(t.Sub(u.now))
	}
	return print.Span(u.now.Sub(*t)) + " ago"
}
