package console

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/client/explain"
)

// sessionTime is the maximum duration of a session. The credentials can expire before.
const sessionTime = 12 * time.Hour

// Login lets users log in with the credentials that the API accepts: a token, the
// certificate of their browser, or those that OpenID Connect gives them.
type Login struct {
	// API is the configuration of a client of the API, without credentials.
	API *rest.Config
	// Sealer seals the data that browsers store.
	Sealer *Sealer
	// OIDC lets users log in at a provider; nil without one.
	OIDC *OIDC
	// NewSecret returns a new unguessable text at each call.
	NewSecret func() string

	links links
}

// loginForm is the form of the page for logging in.
type loginForm struct {
	// OIDC is the address of the login at a provider; empty without one.
	OIDC string
	// Page is shown after the login.
	Page string
	// Code is the code of a login link for User; empty on the first page.
	Code, User string
}

const (
	sessionCookie = "__Host-certplane-console"
	loginPath     = "login"
	// pageAfter is the parameter with the page to show after the login.
	pageAfter = "after"
)

// loginAt returns the address of a login method that leads to a page.
func (h *Handler) loginAt(way, page string) string {
	if page = h.asked(page); page == "" {
		return h.cfg.Base + way
	}
	return h.cfg.Base + way + "?" + url.Values{pageAfter: {page}}.Encode()
}

// asked returns the page that the user requested before the login, below the base of the
// console; empty if it does not belong to the console, or is too long for a cookie.
func (h *Handler) asked(page string) string {
	const most = 500
	at, err := url.Parse(h.cfg.Base + page)
	if err != nil || len(page) > most || !strings.HasPrefix(path.Clean(at.Path)+"/", h.cfg.Base) {
		return ""
	}
	return page
}

// addTo adds the pages for logging in and out.
func (l *Login) addTo(h *Handler) {
	base := h.cfg.Base
	h.mux.HandleFunc("GET "+base+loginPath, func(w http.ResponseWriter, r *http.Request) { h.loginPage(w, r, http.StatusOK, "") })
	h.mux.HandleFunc("POST "+base+loginPath, h.serveLogin)
	h.mux.HandleFunc("POST "+base+"logout", func(w http.ResponseWriter, r *http.Request) {
		setCookie(w, sessionCookie, "", -1)
		http.Redirect(w, r, base+loginPath, http.StatusSeeOther)
	})
	h.mux.HandleFunc("POST "+base+LinkPath, h.serveLink)
	if l.OIDC != nil {
		l.OIDC.addTo(h)
	}
}

// credentials are a token, or the chain of a client certificate whose key the user's
// client has proven to possess.
type credentials struct {
	token string
	chain []*x509.Certificate
}

// credentialsOf returns a browser's credentials; ok is false if it has none.
func (l *Login) credentialsOf(r *http.Request) (c credentials, name string, ok bool) {
	if cookie, err := r.Cookie(sessionCookie); err == nil {
		if text, err := l.Sealer.Open(forSession, cookie.Value); err == nil {
			token, name, _ := strings.Cut(text, " ")
			return credentials{token: token}, name, true
		}
		if text, err := l.Sealer.Open(forCertificate, cookie.Value); err == nil {
			if chain, err := parseChain(text); err == nil {
				return credentials{chain: chain}, chain[0].Subject.CommonName, true
			}
		}
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		return credentials{chain: r.TLS.PeerCertificates}, r.TLS.PeerCertificates[0].Subject.CommonName, true
	}
	return credentials{}, "", false
}

// User is Config.User.
func (l *Login) User(r *http.Request) (Identity, error) {
	c, name, ok := l.credentialsOf(r)
	if !ok {
		return Identity{}, ErrNobody
	}
	return Identity{API: l.as(r, c), Name: name, Credentials: c.hash()}, nil
}

// hash returns a value that identifies the credentials.
func (c credentials) hash() [sha256.Size]byte {
	if c.token != "" {
		return sha256.Sum256([]byte("token " + c.token))
	}
	return sha256.Sum256(append([]byte("certificate "), c.chain[0].Raw...))
}

// seal returns the sealed credentials for a browser to store.
func (c credentials) seal(s *Sealer, name string, lifetime time.Duration) (string, error) {
	if c.token != "" {
		return s.Seal(forSession, c.token+" "+name, lifetime)
	}
	return s.Seal(forCertificate, formatChain(c.chain), lifetime)
}

// lifetime returns the maximum duration of a session with the credentials. The API also
// verifies them at each call.
func (c credentials) lifetime(now time.Time) time.Duration {
	if c.token != "" {
		return sessionTime
	}
	return min(sessionTime, c.chain[0].NotAfter.Sub(now))
}

func formatChain(chain []*x509.Certificate) string {
	var all []string
	for _, cert := range chain {
		all = append(all, base64.RawStdEncoding.EncodeToString(cert.Raw))
	}
	return strings.Join(all, " ")
}

func parseChain(text string) (chain []*x509.Certificate, err error) {
	for one := range strings.SplitSeq(text, " ") {
		der, err := base64.RawStdEncoding.DecodeString(one)
		if err != nil {
			return nil, err
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, err
		}
		chain = append(chain, cert)
	}
	return chain, nil
}

// as returns the configuration with credentials. The API verifies a client certificate like
// one of a connection.
func (l *Login) as(r *http.Request, c credentials) *rest.Config {
	api := rest.CopyConfig(l.API)
	api.BearerToken = c.token
	var state *tls.ConnectionState
	if c.token == "" {
		state = &tls.ConnectionState{HandshakeComplete: true, PeerCertificates: c.chain}
	}
	client := r.RemoteAddr
	api.Wrap(func(next http.RoundTripper) http.RoundTripper { return &onBehalf{next, state, client} })
	return api
}

// onBehalf makes requests on behalf of a browser: the API sees the certificate of the
// browser's connection, and the audit log records the browser's address.
type onBehalf struct {
	next   http.RoundTripper
	state  *tls.ConnectionState
	client string
}

// RoundTrip implements http.RoundTripper.
func (o *onBehalf) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.TLS = o.state
	if host, _, err := net.SplitHostPort(o.client); err == nil {
		r.Header.Set("X-Forwarded-For", host)
	}
	return o.next.RoundTrip(r)
}

// toLogin sends the browser to the page for logging in.
func (h *Handler) toLogin(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || strings.HasSuffix(r.URL.Path, "/"+LivePath) {
		h.loginPage(w, r, http.StatusUnauthorized, "Your session has ended. Log in, and try again.")
		return
	}
	http.Redirect(w, r, h.loginAt(loginPath, strings.TrimPrefix(r.URL.RequestURI(), h.cfg.Base)), http.StatusSeeOther)
}

func (h *Handler) loginPage(w http.ResponseWriter, r *http.Request, code int, problem string) {
	form := &loginForm{Page: h.asked(r.FormValue(pageAfter))}
	if h.cfg.Login.OIDC != nil {
		form.OIDC = h.loginAt(oidcStart, form.Page)
	}
	h.write(w, r, code, view{Title: "Log in", Problem: problem, Login: form}, nil)
}

// serveLogin starts a session with a token that the API accepts, or with the code of a
// link. A page shows the user of a code before the session starts, because another person
// can have sent the link.
func (h *Handler) serveLogin(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		h.loginPage(w, r, http.StatusBadRequest, "The form cannot be read.")
		return
	}
	token := strings.TrimSpace(r.PostForm.Get("token"))
	if token == "" || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		h.loginPage(w, r, http.StatusBadRequest, "This is not a token: paste one line, as 'certplane kubectl create token NAME' prints it.")
		return
	}
	if !isCode(token) {
		h.beginSession(w, r, credentials{token: token}, r.PostForm.Get(pageAfter))
		return
	}
	links := &h.cfg.Login.links
	if r.PostForm.Get("confirmed") == "" {
		if name, ok := links.userOf(token, h.cfg.Now()); ok {
			h.write(w, r, http.StatusOK, view{Title: "Log in as " + name, Login: &loginForm{Page: h.asked(r.PostForm.Get(pageAfter)), Code: token, User: name}}, nil)
			return
		}
	} else if c, ok := links.redeem(token, h.cfg.Now()); ok {
		h.beginSession(w, r, c, r.PostForm.Get(pageAfter))
		return
	}
	h.loginPage(w, r, http.StatusUnauthorized, errNoLink)
}

// beginSession starts a session with credentials, if the API accepts them, and redirects
// to a page.
func (h *Handler) beginSession(w http.ResponseWriter, r *http.Request, c credentials, page string) {
	name, err := h.nameOf(r, c)
	switch {
	case apierrors.IsUnauthorized(err):
		h.loginPage(w, r, http.StatusUnauthorized, "The server does not accept this token. Has it ended?")
		return
	case err != nil:
		h.loginPage(w, r, http.StatusBadGateway, "Checking the token: "+err.Error())
		return
	}
	lifetime := c.lifetime(h.cfg.Now())
	sealed, err := c.seal(h.cfg.Login.Sealer, name, lifetime)
	if err != nil {
		h.loginPage(w, r, http.StatusBadRequest, err.Error())
		return
	}
	setCookie(w, sessionCookie, sealed, int(lifetime/time.Second))
	http.Redirect(w, r, h.cfg.Base+h.asked(page), http.StatusSeeOther)
}

// anonymous is the user of requests without credentials.
const anonymous = "system:anonymous"

// nameOf returns the user that the API authenticates with credentials.
func (h *Handler) nameOf(r *http.Request, c credentials) (string, error) {
	api, err := explain.Connect(h.cfg.Login.as(r, c))
	if err != nil {
		return "", err
	}
	who, err := api.WhoAmI(r.Context())
	if err == nil && who.Username == anonymous {
		err = apierrors.NewUnauthorized("the credentials are nobody's")
	}
	return who.Username, err
}

// maxCookie is the maximum size in bytes of a cookie that browsers store.
const maxCookie = 4000

// setCookie sets a cookie that only pages of this server send, or deletes it.
func setCookie(w http.ResponseWriter, name, value string, seconds int) {
	http.SetCookie(w, &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: seconds, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode})
}
