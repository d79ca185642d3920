package apiserver

import (
	"net/http"
	"strings"
	"time"
)

// Console configures the pages that browsers are served next to the API.
type Console struct {
	// Path is the path of its pages; it ends with a slash.
	Path string
	// Handler serves the pages to all clients: it calls the API as the user who has logged
	// in.
	Handler http.Handler
	// Live is the path of streams, which have no deadline.
	Live string
	// Inside is called with the handler of the console's calls when the server runs.
	// Requests through this handler count as requests of the user.
	Inside func(http.Handler)
}

// wrap serves the console's paths itself and all others by the API. The root of the server
// shows the console to browsers. The console's pages do not pass authentication and
// authorization; its calls of the API do.
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
