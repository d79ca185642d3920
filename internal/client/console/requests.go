package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/certplane/certplane/internal/client/cli/inbox"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/rights"
)

// requestResources are the resources of requests.
var requestResources = func() (all []string) {
	for _, k := range requestKinds {
		all = append(all, resourceOf(k.Kind))
	}
	return all
}()

func resourceOf(kind rights.Kind) string { return kind.Resource + "." + kind.Group }

// requestsPath is the page of requests.
const requestsPath = "requests"

// requestColumns are the columns of tables of requests.
var requestColumns = []string{"Request", "Namespace", "Signer", "Requester", "Subject and names", "Usages", "Age", "State", "You"}

// serveRequests shows the requests of all kinds, by default the waiting ones.
func (u *user) serveRequests(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	number := pageNumber(query)
	q := inbox.Query{
		Namespace: query.Get("namespace"), SignerPart: query.Get("signer"), Search: query.Get("search"), All: query.Get("state") == "all",
		Skip: (number - 1) * rowsOnPage, Limit: rowsOnPage,
	}
	q.Newest = query.Get("order") == "newest" || q.All && query.Get("order") == ""
	found, err := inbox.List(r.Context(), u.api, q)
	if err != nil {
		u.failCall(w, r, "", err)
		return
	}
	t := table{
		Title: "Requests that wait for a decision", None: "No request waits.", Total: found.Total,
		Columns: requestColumns, Problem: strings.ReplaceAll(strings.Join(found.Missing, "; "), inbox.GiveNamespace, "search in one of them"), Choose: u.cfg.Base + manyPath,
	}
	if q.All {
		t.Title, t.None = "Requests", "No requests found."
	}
	if found.Unfiltered > 0 {
		t.None = fmt.Sprintf("None of %s matches.", counted(found.Unfiltered, "request"))
	}
	if t.Rows, err = u.requestRows(r.Context(), found.Requests); err != nil {
		u.failCall(w, r, "checking the results of decisions", err)
		return
	}
	t.page(query, number)
	u.show(w, r, view{
		Title: "Requests", Lead: "Requests for certificates, of all kinds. Open one to see the checks that decide it, and to approve or deny it.",
		Tables: []table{t}, watched: requestResources,
		Filters: []filter{
			{Name: "search", Label: "Search", Value: q.Search, Hint: "name, requester, signer"},
			{Name: "state", Label: "Show", Value: query.Get("state"), Options: []option{{"", "Waiting"}, {"all", "All"}}},
			{Name: "signer", Label: "Signer", Value: q.SignerPart, Hint: "example.com/web"},
			{Name: "namespace", Label: "Namespace", Value: q.Namespace},
			{Name: "order", Label: "Order", Value: query.Get("order"), Options: []option{{"", "Usual"}, {"oldest", "Oldest first"}, {"newest", "Newest first"}}},
		},
	})
}

// counted returns a number with the noun thing in the right form.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return thousands(n) + " " + thing + "s"
}

// thousands returns a number with commas.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// requestRows returns the rows of requests, with the expected result of the user's
// approval. The user can select requests that they may decide.
func (u *user) requestRows(ctx context.Context, entries []inbox.Entry) ([]row, error) {
	var rows []row
	var all *explain.Verdicts
	for _, e := range entries {
		r := u.requestRow(e)
		if e.YouMayDecide == explain.Yes {
			if all == nil {
				var err error
				if all, err = u.verdicts(ctx); err != nil {
					return nil, err
				}
			}
			you := &r[len(r)-1]
			you.Text, you.State = "may decide", "good"
			verdict, err := all.Of(ctx, e.Object())
			if err == nil {
				you.Text, you.State = prospectOf(verdict)
			}
			r[0].Choice, r[0].ID = choiceOf(e), string(e.UID)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// prospectOf returns the expected result of an approval in a few words.
func prospectOf(v explain.Verdict) (text, state string) {
	have, count := 0, 0
	for _, r := range v.People {
		have, count = have+int(r.Have), count+int(r.Count)
	}
	switch {
	case v.May == explain.No:
		return "may not decide", ""
	case v.Voted:
		return fmt.Sprintf("you approved, %d of %d", have, count), "waiting"
	case v.Refusal != "" && count > have:
		return fmt.Sprintf("needs people (%d of %d); you cannot approve", have, count), "waiting"
	case v.Refusal != "":
		return "a policy would refuse", "bad"
	case v.Objection != "":
		return "its signer would refuse", "bad"
	case count > have:
		return fmt.Sprintf("may decide, %d of %d people", have, count), "good"
	}
	return "may decide", "good"
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

// pageNumber returns the number of a page in an address; the first one if it is not a number.
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
	last := max(1, (t.Total+rowsOnPage-1)/rowsOnPage)
	if number < last {
		t.Next, t.Last = to(number+1), to(last)
	}
	if len(t.Rows) > 0 && last > 1 {
		first := (number - 1) * rowsOnPage
		t.Range = fmt.Sprintf("%s-%s of %s", thousands(first+1), thousands(first+len(t.Rows)), thousands(t.Total))
	}
}

// ago returns the time since or until a time.
func (u *user) ago(t *time.Time) string {
	switch {
	case t == nil:
		return ""
	case t.After(u.now):
		return "in " + print.Span(t.Sub(u.now))
	}
	return print.Span(u.now.Sub(*t)) + " ago"
}

// left returns the time left until a time.
func (u *user) left(until time.Time) string {
	if !until.After(u.now) {
		return "ended"
	}
	return print.Span(until.Sub(u.now))
}
