package responder

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"

	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/acme/solver/live"
)

// Results of requests.
const (
	hit       = "hit"
	selfCheck = "self-check" // a hit by a check of this program
	miss      = "miss"       // no challenge has the token
	wrongHost = "wrong-host" // the challenge is for another name
	method    = "method"     // neither GET nor HEAD
	other     = "other"      // another path
	health    = "health"
)

var results = []string{hit, selfCheck, miss, wrongHost, method, other, health}

// ServeHTTP implements http.Handler.
func (r *Responder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	from := sourceOf(req, r.proxies)
	result := r.answer(w, req, from)
	r.metrics.requests.WithLabelValues(result).Inc()
	klog.FromContext(req.Context()).V(4).Info("Answered a request for HTTP-01", "result", result, "remote", req.RemoteAddr, "client", from.client)
}

// answer answers a request and returns its result.
func (r *Responder) answer(w http.ResponseWriter, req *http.Request, from source) string {
	path := req.URL.EscapedPath()
	if r.settings.HealthPath != "" && path == r.settings.HealthPath {
		return health // the status is 200
	}
	token, ok := tokenOf(path)
	if !ok {
		refuse(w, http.StatusNotFound, "There is nothing at this path.")
		return other
	}
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, "Challenges are answered to GET and HEAD.")
		return method
	}
	known := r.await(req.Context(), token, network(from.client))
	if len(known) == 0 {
		refuse(w, http.StatusNotFound, "No challenge with this token is being processed.")
		return miss
	}
	for _, c := range known {
		if r.settings.AnyHost || from.forHost(req, c.Host) {
			return r.send(w, req, c)
		}
	}
	refuse(w, http.StatusNotFound, "The challenge with this token is for another name.")
	return wrongHost
}

// await returns the challenges with a token. If none exists, it waits for one.
func (r *Responder) await(ctx context.Context, token string, from netip.Prefix) []live.Challenge {
	known, changed := r.index.Token(token)
	if len(known) > 0 || !r.waits.enter(from) {
		return known
	}
	defer r.waits.leave(from)
	timer := r.clock.NewTimer(maxWait)
	defer timer.Stop()
	for len(known) == 0 {
		select {
		case <-changed:
			known, changed = r.index.Token(token)
		case <-timer.C():
			return nil
		case <-ctx.Done():
			return nil
		}
	}
	return known
}

func (r *Responder) send(w http.ResponseWriter, req *http.Request, c live.Challenge) string {
	header := w.Header()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Length", strconv.Itoa(len(c.Key)))
	if req.Method != http.MethodHead {
		_, _ = io.WriteString(w, c.Key) // a client that is gone asks again
	}
	if r.userAgent != "" && req.UserAgent() == r.userAgent {
		return selfCheck
	}
	return hit
}

func refuse(w http.ResponseWriter, status int, text string) {
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	fmt.Fprintln(w, text)
}
