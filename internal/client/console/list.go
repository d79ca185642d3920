package console

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/certplane/certplane/internal/api/served"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/process/duration"
)

// listed is a resource that a page lists with the API server's table columns.
type listed struct {
	// resource is one of those with pages of objects.
	resource    string
	title, none string
	namespaced  bool
	// hidden are the columns that only the page of an object shows, to save space.
	hidden []string
}

// rowsOnPage is the maximum number of rows of a table.
const rowsOnPage = 50

// table is a table of a page.
type table struct {
	Title   string
	Columns []string
	Rows    []row
	// None is shown without rows, Problem after a failed read.
	None, Problem string
	// Total is the number of rows on all pages; 0 if unknown.
	Total int
	// Previous and Next are the addresses of the neighbouring pages, Last the address of
	// the last page. Range are the numbers of the rows.
	Previous, Next, Last, Range string
	// Choose is the address to send chosen rows to; empty if rows cannot be chosen.
	Choose string
}

// dropEmptyColumns drops all columns but the first that are empty in every row.
func (t *table) dropEmptyColumns() {
	for i := len(t.Columns) - 1; i > 0; i-- {
		if len(t.Rows) == 0 || slices.ContainsFunc(t.Rows, func(r row) bool { return r[i].Text != "-" && r[i].Text != "" }) {
			continue
		}
		t.Columns = slices.Delete(slices.Clone(t.Columns), i, i+1)
		for j := range t.Rows {
			t.Rows[j] = slices.Delete(t.Rows[j], i, i+1)
		}
	}
}

type row []cell

// cell is a field of a table.
type cell struct {
	Text string
	// Link is the address that the text links to.
	Link string
	// State is good, bad or waiting for states, digits for long numbers, copied for
	// numbers that users copy, and date for times, which are never broken.
	State string
	// Choice is the value to send if the row is chosen; empty if it cannot be chosen. ID
	// then identifies the row.
	Choice, ID string
}

const (
	digits = "digits"
	copied = "digits copy"
	date   = "date"
)

func texts(all ...string) row {
	var r row
	for _, text := range all {
		r = append(r, cell{Text: cmp.Or(text, "-"), State: stateOf(text)})
	}
	return r
}

// states maps the words for states to their colors.
var states = map[string]string{
	"True": "good", "Ready": "good", "Issued": "good", "Approved": "good", "Valid": "good", "valid": "good", "current": "good", "Yes": "good", "yes": "good",
	"False": "bad", "NotReady": "bad", "Degraded": "bad", "Denied": "bad", "Failed": "bad", "Invalid": "bad", "invalid": "bad", "expired": "bad", "errored": "bad", "No": "bad", "no": "bad", "Warning": "bad", "ended": "bad",
	"Unknown": "waiting", "Pending": "waiting", "pending": "waiting", "processing": "waiting", "Open": "waiting", "open": "waiting", "unknown": "waiting",
}

func stateOf(text string) string {
	if _, err := time.Parse(time.RFC3339, text); err == nil {
		return date
	}
	return states[text]
}

// serveLists returns the handler of a page with the objects of some resources.
func serveLists(title, lead string, all ...listed) func(*user, http.ResponseWriter, *http.Request) {
	return func(u *user, w http.ResponseWriter, r *http.Request) {
		shown := view{Title: title, Lead: lead}
		for _, l := range all {
			t, err := u.list(r.Context(), l, r.URL.Query())
			if err != nil {
				u.failCall(w, r, "listing "+l.resource, err)
				return
			}
			shown.Tables = append(shown.Tables, t)
			shown.watched = append(shown.watched, l.resource)
			if l.resource == signers {
				shown.Tables = append(shown.Tables, u.builtIn())
			}
		}
		u.show(w, r, shown)
	}
}

// builtIn returns the table of the built-in signers.
func (u *user) builtIn() table {
	t := table{Title: "Built-in signers", Columns: []string{"Signer"}}
	for _, name := range explain.BuiltInSigners() {
		t.Rows = append(t.Rows, row{{Text: name, Link: u.linkTo(signers, "", name)}})
	}
	return t
}

// list returns the table that the API server makes of a resource. The problem of the
// table explains a missing resource or permission.
func (u *user) list(ctx context.Context, l listed, query url.Values) (table, error) {
	t := table{Title: l.title, None: l.none}
	kind, plural := kinds[l.resource], schema.ParseGroupResource(l.resource).Resource
	call := u.typed.CoreV1().RESTClient().Get().AbsPath("apis", kind.Group, kind.Version, plural).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json").
		Param("limit", fmt.Sprint(rowsOnPage))
	param := "continue-" + plural
	if from := query.Get(param); from != "" {
		call = call.Param("continue", from)
	}
	data, err := call.DoRaw(ctx)
	if t.Problem = listProblem(l.resource, err); t.Problem != "" {
		return t, nil
	}
	switch {
	case apierrors.IsResourceExpired(err), apierrors.IsBadRequest(err): // where to continue is all that users say
		t.Problem = "The list has changed too much: begin at the first page."
		return t, nil
	case err != nil:
		return t, err
	}
	var from metav1.Table
	if err := json.Unmarshal(data, &from); err != nil {
		return t, fmt.Errorf("reading the table of %s: %w", l.resource, err)
	}
	if err := t.fill(u, l, &from); err != nil {
		return t, err
	}
	if from.Continue != "" {
		t.Next = "?" + url.Values{param: {from.Continue}}.Encode()
	}
	return t, nil
}

// listProblem explains why a resource cannot be listed, if the user can know it in advance:
// it is not served, or the user may not list it.
func listProblem(resource string, err error) string {
	switch {
	case served.IsMissing(err) || apierrors.IsNotFound(err):
		return "This server does not serve " + resource + "."
	case apierrors.IsForbidden(err):
		return "You may not list " + resource + "."
	}
	return ""
}

// columnTexts are columns of the API whose cells are shown in another form.
var columnTexts = map[string]func(*user, string) string{
	"Lifetime":  func(_ *user, text string) string { return duration.Readable(text) },
	"Last Seen": (*user).day,
}

// day returns today for the start of the current day in UTC, and the date for other days.
// Other texts are returned unchanged.
func (u *user) day(text string) string {
	day, isDay := strings.CutSuffix(text, "T00:00:00Z")
	switch {
	case !isDay && len(text) != len(time.DateOnly):
		return text
	case day == u.now.UTC().Format(time.DateOnly):
		return "today"
	}
	return day
}

// fill adds the rows of a table of the API.
func (t *table) fill(u *user, l listed, from *metav1.Table) error {
	if l.namespaced {
		t.Columns = append(t.Columns, "Namespace")
	}
	hidden := func(i int) bool { return slices.Contains(l.hidden, from.ColumnDefinitions[i].Name) }
	for i, column := range from.ColumnDefinitions {
		if !hidden(i) {
			t.Columns = append(t.Columns, column.Name)
		}
	}
	for _, r := range from.Rows {
		var object metav1.PartialObjectMetadata
		if err := json.Unmarshal(r.Object.Raw, &object); err != nil {
			return fmt.Errorf("reading the table of %s: %w", l.resource, err)
		}
		var cells row
		if l.namespaced {
			cells = append(cells, cell{Text: object.Namespace})
		}
		for i, value := range r.Cells {
			if hidden(i) {
				continue
			}
			c := cell{Text: "-"}
			if value != nil && value != "" {
				text := withoutBrackets(fmt.Sprint(value))
				if shown := columnTexts[from.ColumnDefinitions[i].Name]; shown != nil {
					text = shown(u, text)
				}
				c = cell{Text: text, State: stateOf(text)}
			}
			if i == 0 {
				c = cell{Text: object.Name, Link: u.linkTo(l.resource, object.Namespace, object.Name)}
			}
			cells = append(cells, c)
		}
		t.Rows = append(t.Rows, cells)
	}
	return nil
}

// withoutBrackets returns the elements of a list that the server shows as JSON; other
// texts unchanged.
func withoutBrackets(text string) string {
	var list []string
	if !strings.HasPrefix(text, "[") || json.Unmarshal([]byte(text), &list) != nil {
		return text
	}
	return strings.Join(list, ", ")
}

// noNamespace replaces the namespace of objects without one in addresses.
const noNamespace = "-"

// linkTo returns the address of the page of an object.
func (u *user) linkTo(resource, namespace, name string) string {
	return u.cfg.Base + "object/" + resource + "/" + cmp.Or(namespace, noNamespace) + "/" + escaped(name)
}

// escaped returns a name as a part of an address. Names of signers have a slash, which stays.
func escaped(name string) string {
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		parts = append(parts, url.PathEscape(part))
	}
	return strings.Join(parts, "/")
}
