package console

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
)

// LinkPath is the path below Config.Base where clients of the API get a code that logs a
// browser in as their user, once.
const LinkPath = "login-code"

const (
	// linkTime is how long a code can be used.
	linkTime = 10 * time.Minute
	// maxLinks is how many codes there are at once, maxLinksOfOne how many of one user.
	maxLinks      = 1000
	maxLinksOfOne = 10
	// codePrefix starts codes, and distinguishes them from tokens.
	codePrefix = "once-"
)

// LoginCode is the answer to a client's request to log a browser in.
type LoginCode struct {
	Code  string    `json:"code"`
	User  string    `json:"user"`
	Until time.Time `json:"until"`
}

func isCode(text string) bool { return strings.HasPrefix(text, codePrefix) }

// errNoLink reports that a code cannot be used.
const errNoLink = "This link cannot be used: it was used before, is older than ten minutes, or comes from another server. Run 'certplane console --login-link' again."

// links holds the valid codes by their hashes, in memory only: a code can be used once,
// at the server that created it. It is safe for concurrent use.
type links struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]link
}

// link holds the login that a code permits.
type link struct {
	credentials
	user  string
	until time.Time
}

// add adds a code for the credentials of a user; ok is false if too many codes exist.
func (l *links) add(secret string, c credentials, user string, now time.Time) (code LoginCode, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := 0
	for key, one := range l.all {
		if !now.Before(one.until) {
			delete(l.all, key)
		} else if one.user == user {
			of++
		}
	}
	if len(l.all) >= maxLinks || of >= maxLinksOfOne {
		return LoginCode{}, false
	}
	if l.all == nil {
		l.all = map[[sha256.Size]byte]link{}
	}
	code = LoginCode{Code: codePrefix + secret, User: user, Until: now.Add(linkTime)}
	l.all[sha256.Sum256([]byte(code.Code))] = link{c, user, code.Until}
	return code, true
}

// userOf returns the user that a code would log in.
func (l *links) userOf(code string, now time.Time) (string, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, ok := l.all[sha256.Sum256([]byte(code))]
	return found.user, ok && now.Before(found.until)
}

// redeem returns the credentials of a code, which cannot be used again.
func (l *links) redeem(code string, now time.Time) (credentials, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := sha256.Sum256([]byte(code))
	found, ok := l.all[key]
	delete(l.all, key)
	return found.credentials, ok && now.Before(found.until)
}

// serveLink returns a code that logs a browser in as the user of an API client. The
// client authenticates with its own credentials in this request: a cookie does not count,
// so that no page can request a code for the user who views it.
func (h *Handler) serveLink(w http.ResponseWriter, r *http.Request) {
	for name := range r.Header {
		if strings.HasPrefix(name, "Impersonate-") {
			http.Error(w, "A login link is for the user of the credentials: do not impersonate another one.", http.StatusBadRequest)
			return
		}
	}
	c := credentials{}
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		c.token = strings.TrimSpace(token)
	} else if r.TLS != nil {
		c.chain = r.TLS.PeerCertificates
	}
	if r.Header.Get("Origin") != "" || c.token == "" && len(c.chain) == 0 {
		http.Error(w, "Send the credentials of a user: a client certificate or a token.", http.StatusUnauthorized)
		return
	}
	user, err := h.nameOf(r, c)
	switch {
	case apierrors.IsUnauthorized(err):
		http.Error(w, "The server does not accept these credentials.", http.StatusUnauthorized)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	if _, err := c.seal(h.cfg.Login.Sealer, user, linkTime); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	code, ok := h.cfg.Login.links.add(h.cfg.Login.NewSecret(), c, user, h.cfg.Now())
	if !ok {
		http.Error(w, "There are too many login links that were not used: wait ten minutes.", http.StatusTooManyRequests)
		return
	}
	klog.FromContext(r.Context()).Info("A login link for the console was made", "user", user, "client", r.RemoteAddr, "until", code.Until)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(code) // the client may be gone
}
