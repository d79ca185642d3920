package apiserver

import (
	"net/http"
	"strings"
	"time"
)

// Console is what browsers are served beside the API.
type Console struct {
	// Path is the path of its pages; it ends with a slash.
	Path string
	// Handler serves them to anybody: it calls the API as the user who has logged in.
	Handler http.Handler
	// Live is the path of streams, which have no deadline.
	Live string
	// Inside is called with the handler of its calls when the server runs. What it
	// handles counts as requests of the user.
	Inside func(http.Handler)
}

// wrap serves the console's paths, and all others by the API. A browser that asks for the
// root of the server finds the console. The console does not pass authentication and
// authorization: its calls do.
func (c *Console) wrap(api http.Handler) http.Handler {
	if c == nil {
		return api
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case isInside(r.Context()):
			api.ServeHTTP(w, r)
		case strings.HasPrefix(r.URL.Path, c.Path):
			if r.URL.Path == c.Live {
				answerTo(r).setDeadlines(time.Time{}) // the client has to read, still
			}
			c.Handler.ServeHTTP(w, r)
		case (r.URL.Path == "/" || r.URL.Path+"/" == c.Path) && isBrowser(r):
			http.Redirect(w, r, c.Path, http.StatusFound)
		default:
			api.ServeHTTP(w, r)
		}
	})
}

// isBrowser reports whether a person asks for a page to read.
func isBrowser(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Authorization") == "" && strings.HasPrefix(r.Header.Get("Accept"), "text/html")
}
