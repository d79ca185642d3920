package console

import (
	"bytes"
	"embed"
	"errors"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/explain"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed assets/*
var assetFiles embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"command":   func(words []string) string { return print.CommandLine(words...) },
	"printable": print.Printable,
	"thousands": thousands,
	"counted":   counted,
	"stateOf":   stateOf,
}).ParseFS(templateFiles, "templates/*.html"))

// assets serves the files that pages use.
func assets() http.Handler {
	files, err := fs.Sub(assetFiles, ".")
	if err != nil {
		panic(err) // the name is valid
	}
	server := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/") {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Cache-Control", "private, max-age=600")
		server.ServeHTTP(w, r)
	})
}

// view is the main content of a page.
type view struct {
	Title string
	// Lead is a sentence below the title.
	Lead string
	// Problem describes a failure, Done the user's last action, NextLink the next waiting
	// request.
	Problem, Done string
	NextLink      *cell
	// Back is the address of the list of requests, for pages that come after it.
	Back string
	// Filters are the fields of the search.
	Filters []filter
	Tables  []table
	// Download is a link below the tables.
	Download *cell
	// Figures and Weeks are on the start page.
	Figures []figure
	Weeks   []week
	// Sections, Next and Source belong to the page of an object.
	Sections []section
	Next     []explain.Step
	Source   string
	// Events is the address of the object's Events.
	Events string
	// Decision is the form that approves and denies; nil if no decision is needed.
	Decision *decisionForm
	// Many is the form that confirms a decision on many requests.
	Many  *manyForm
	Login *loginForm
	// Revoke is the form that revokes the certificate of a record; nil if there is none.
	Revoke *revokeForm
	// self is the address of the object, state the state of a request.
	self  string
	state certificates.State
	// watched are the resources whose changes change the page.
	watched []string
}

// section is a part of an object's page.
type section struct {
	Title, Lead string
	Rows        []row
}

// filter is a field of a search.
type filter struct {
	Name, Label, Value, Hint string
	// Options are the values of a choice; the first is the default.
	Options []option
}

type option struct{ Value, Label string }

// document is a whole page.
type document struct {
	view
	Base, Path, Version, User string
	Pages                     []page
	Live                      string
	LoggedIn                  bool
}

// show writes a page.
func (u *user) show(w http.ResponseWriter, r *http.Request, v view) {
	u.write(w, r, http.StatusOK, v)
}

// write writes a page with a status code.
func (u *user) write(w http.ResponseWriter, r *http.Request, code int, v view) {
	u.Handler.write(w, r, code, v, u)
}

// write writes a page for a user, or for a browser without a session, with a status code.
func (h *Handler) write(w http.ResponseWriter, r *http.Request, code int, v view, of *user) {
	d := document{view: v, Base: h.cfg.Base, Path: strings.TrimPrefix(r.URL.Path, h.cfg.Base), Version: h.cfg.Version}
	if of != nil {
		d.Pages, d.User, d.LoggedIn = of.menu(r.Context()), of.name, h.cfg.Login != nil
	}
	if len(v.watched) > 0 {
		d.Live = h.cfg.Base + "live?" + url.Values{"of": v.watched}.Encode()
	}
	for i := range d.Tables {
		d.Tables[i].dropEmptyColumns()
	}
	var page bytes.Buffer
	if err := templates.ExecuteTemplate(&page, "page.html", d); err != nil {
		klog.FromContext(r.Context()).Error(err, "Cannot make a page of the console", "path", d.Path)
		http.Error(w, "The page cannot be shown.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(visible(page.Bytes())) // the browser may be gone
}

// visible returns a page without hidden text: control characters, marks that change the
// direction of text, and characters without a width are shown as escapes everywhere. Only
// ends of lines stay.
func visible(page []byte) []byte {
	if !bytes.ContainsFunc(page, hidden) {
		return page
	}
	shown := make([]byte, 0, len(page)+64)
	for len(page) > 0 {
		r, size := utf8.DecodeRune(page)
		if hidden(r) {
			quoted := strconv.QuoteRune(r)
			shown = append(shown, quoted[1:len(quoted)-1]...)
		} else {
			shown = append(shown, page[:size]...)
		}
		page = page[size:]
	}
	return shown
}

func hidden(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }

// fail shows that a page cannot be shown.
func (u *user) fail(w http.ResponseWriter, r *http.Request, code int, problem string) {
	u.write(w, r, code, failed(code, problem))
}

// failed returns the page that explains an error.
func failed(code int, problem string) view {
	return view{Title: http.StatusText(code), Problem: problem}
}

// failCall shows the error of a call to the API, prefixed with doing unless it is empty.
// It redirects a user whose credentials have expired to the login.
func (u *user) failCall(w http.ResponseWriter, r *http.Request, doing string, err error) {
	var absent *explain.NotFoundError
	var unread *explain.ReadError
	if errors.As(err, &unread) {
		doing, err = unread.Doing, unread.Err
	}
	text := err.Error()
	if doing != "" {
		text = exit.Advise(doing, err).Error()
	}
	switch {
	case errors.As(err, &absent):
		u.fail(w, r, http.StatusNotFound, absent.Message)
	case apierrors.IsUnauthorized(err) && u.cfg.Login != nil:
		u.toLogin(w, r)
	case apierrors.IsForbidden(err):
		u.fail(w, r, http.StatusForbidden, text)
	case apierrors.IsNotFound(err):
		u.fail(w, r, http.StatusNotFound, text)
	default:
		u.fail(w, r, http.StatusBadGateway, text)
	}
}
