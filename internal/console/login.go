package console

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/explain"
)

// sessionTime is how long a session lasts at most. The credentials can end before.
const sessionTime = 12 * time.Hour

// Login lets users log in with the credentials that the API accepts: a token, the
// certificate of their browser, or those that OpenID Connect gives them.
type Login struct {
	// API is how the API is reached, without credentials.
	API *rest.Config
	// Sealer seals what browsers keep.
	Sealer *Sealer
	// OIDC lets users log in at a provider; nil if there is none.
	OIDC *OIDC
}

// loginForm is the form of the page for logging in.
type loginForm struct {
	// OIDC is where users log in at a provider; empty if there is none.
	OIDC string
	// Page is shown after the login.
	Page string
}

const (
	sessionCookie = "__Host-certplane-console"
	loginPath     = "login"
	// pageAfter is the parameter that has the page to show after the login.
	pageAfter = "after"
)

// loginAt returns the address of a way to log in that leads to a page.
func (h *Handler) loginAt(way, page string) string {
	if page = h.asked(page); page == "" {
		return h.cfg.Base + way
	}
	return h.cfg.Base + way + "?" + url.Values{pageAfter: {page}}.Encode()
}

// asked returns the page that the user wanted before the login, below the base of the
// console; empty if it is none of the console, or too long for a cookie.
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
	if l.OIDC != nil {
		l.OIDC.addTo(h)
	}
}

// User is Config.User.
func (l *Login) User(r *http.Request) (api *rest.Config, name string, err error) {
	if cookie, err := r.Cookie(sessionCookie); err == nil {
		if text, err := l.Sealer.Open(forSession, cookie.Value); err == nil {
			token, name, _ := strings.Cut(text, " ")
			return l.as(r, token), name, nil
		}
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		return l.as(r, ""), r.TLS.PeerCertificates[0].Subject.CommonName, nil
	}
	return nil, "", ErrNobody
}

// as returns the configuration with a token or, without one, with the certificate of the
// browser's connection, which the API verifies like any other.
func (l *Login) as(r *http.Request, token string) *rest.Config {
	api := rest.CopyConfig(l.API)
	api.BearerToken = token
	state := r.TLS
	if token != "" {
		state = nil
	}
	client := r.RemoteAddr
	api.Wrap(func(next http.RoundTripper) http.RoundTripper { return &onBehalf{next, state, client} })
	return api
}

// onBehalf makes requests as a browser whose requests are answered: the API sees the
// certificate of its connection, and its audit log the browser's address.
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

// serveLogin begins a session with a token that the API accepts.
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
	h.beginSession(w, r, token, r.PostForm.Get(pageAfter))
}

// beginSession begins a session with a token, if the API accepts it, and goes to a page.
func (h *Handler) beginSession(w http.ResponseWriter, r *http.Request, token, page string) {
	api, err := explain.Connect(h.cfg.Login.as(r, token))
	var user authenticationv1.UserInfo
	if err == nil {
		user, err = api.WhoAmI(r.Context())
	}
	switch {
	case apierrors.IsUnauthorized(err):
		h.loginPage(w, r, http.StatusUnauthorized, "The server does not accept this token. Has it ended?")
		return
	case err != nil:
		h.loginPage(w, r, http.StatusBadGateway, "Checking the token: "+err.Error())
		return
	}
	sealed, err := h.cfg.Login.Sealer.Seal(forSession, token+" "+user.Username, sessionTime)
	if err != nil {
		h.loginPage(w, r, http.StatusBadRequest, err.Error())
		return
	}
	setCookie(w, sessionCookie, sealed, int(sessionTime/time.Second))
	http.Redirect(w, r, h.cfg.Base+h.asked(page), http.StatusSeeOther)
}

// maxCookie is the most bytes of a cookie that browsers keep.
const maxCookie = 4000

// setCookie sets a cookie that only pages of this server send, or deletes it.
func setCookie(w http.ResponseWriter, name, value string, seconds int) {
	http.SetCookie(w, &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: seconds, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode})
}
