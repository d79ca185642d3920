// Package console serves pages that show certificate requests, certificates, signers and
// hosts of an API server, and that approve and deny requests.
//
// Each page is made from calls as the browser's user: the console has no rights, and
// shows data only to the user for whom it was read. Pages are complete without scripts; a
// script replaces their content when a watch reports changes.
package console

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/inventory"
	"github.com/certplane/certplane/internal/rights"
)

// pageTimeout limits the duration of the calls for one page.
const pageTimeout = 30 * time.Second

// ErrNobody is the error of requests without a session.
var ErrNobody = errors.New("log in first")

// Config configures a Handler.
type Config struct {
	// Base is the path of the first page. It begins and ends with a slash.
	Base string
	// User returns the user of a request, or ErrNobody.
	User func(*http.Request) (Identity, error)
	// Login lets users log in. Nil when the console has one user, who started it.
	Login *Login
	// Kubectl and Flags address the same server in the user's shell, for commands that
	// pages show.
	Kubectl, Flags []string
	// Controllers is the namespace in which the records of a cluster are; if empty, the
	// usual one.
	Controllers string
	// Version is shown on each page.
	Version string
	// Now is the time.
	Now func() time.Time
}

// Identity is a user.
type Identity struct {
	// API is the configuration of a client that acts as the user.
	API  *rest.Config
	Name string
	// Credentials are equal only for requests with the same credentials.
	Credentials [sha256.Size]byte
}

// Handler serves the console. It is safe for concurrent use.
type Handler struct {
	cfg       Config
	mux       *http.ServeMux
	origins   *http.CrossOriginProtection
	pages     []page
	streams   bounds
	followers followers
	resources resources
	menus     menus
}

// New returns a handler for all paths that begin with Config.Base.
func New(cfg Config) *Handler {
	h := &Handler{cfg: cfg, mux: http.NewServeMux(), origins: http.NewCrossOriginProtection(), pages: allPages()}
	h.streams.limit, h.streams.each = maxStreams, maxOfUser
	h.followers.now, h.resources.now, h.menus.now = cfg.Now, cfg.Now, cfg.Now
	base := cfg.Base
	h.mux.Handle("GET "+base+"assets/", http.StripPrefix(base, assets()))
	if cfg.Login != nil {
		cfg.Login.addTo(h)
	}
	for _, p := range h.pages {
		h.mux.HandleFunc("GET "+base+p.Path, h.asUser(p.serve))
	}
	h.mux.HandleFunc("GET "+base+"{$}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, base+h.pages[0].Path, http.StatusFound)
	})
	h.mux.HandleFunc("GET "+base+"object/{resource}/{namespace}/{name...}", h.asUser(ofObject((*user).serveObject)))
	h.mux.HandleFunc("POST "+base+"object/{resource}/{namespace}/{name...}", h.asUser(ofObject((*user).serveDecision)))
	h.mux.HandleFunc("GET "+base+"events/{resource}/{namespace}/{name...}", h.asUser(ofObject((*user).serveEvents)))
	h.mux.HandleFunc("GET "+base+"issued/{name}", h.asUser(ofRecord(recordPage.serve)))
	h.mux.HandleFunc("POST "+base+"issued/{name}", h.asUser(ofRecord(recordPage.serveRevocation)))
	for _, file := range []string{leafFile, chainFile} {
		h.mux.HandleFunc("GET "+base+"issued/{name}/"+file, h.asUser(ofRecord(serveFile(file))))
	}
	h.mux.HandleFunc("GET "+base+issuedFile, h.asUser((*user).serveIssuedFile))
	h.mux.HandleFunc("GET "+base+"trust/{signer...}", h.asUser((*user).serveRoots))
	h.mux.HandleFunc("POST "+base+manyPath, h.asUser((*user).serveMany))
	h.mux.HandleFunc("GET "+base+LivePath, h.asUser((*user).serveLive))
	h.mux.HandleFunc(base, h.asUser(func(u *user, w http.ResponseWriter, r *http.Request) {
		u.fail(w, r, http.StatusNotFound, "Page not found.")
	}))
	return h
}

// securityPolicy lets pages load only files of this server, and forbids other sites to frame
// them.
const securityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// maxForm is the maximum size of a form in bytes.
const maxForm = 64 << 10

// httpsOnly is the time for which browsers that have visited the console do not use http
// for its host.
const httpsOnly = 30 * 24 * time.Hour

// otherScheme reports whether a form comes from a page of the same host that was read
// without TLS, which an attacker on the network can have written. CrossOriginProtection
// compares the scheme only if the browser sends Sec-Fetch-Site.
func otherScheme(r *http.Request) bool {
	return r.TLS != nil && r.Header.Get("Sec-Fetch-Site") == "" && strings.HasPrefix(r.Header.Get("Origin"), "http://") &&
		r.Method != http.MethodGet && r.Method != http.MethodHead
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", securityPolicy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	if r.TLS != nil {
		header.Set("Strict-Transport-Security", fmt.Sprintf("max-age=%d", int(httpsOnly/time.Second)))
	}
	if h.origins.Check(r) != nil || otherScheme(r) {
		http.Error(w, "This form was sent by a page of another server. Open the console, and decide there.", http.StatusForbidden)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	h.mux.ServeHTTP(w, r)
}

// user is the user of one request, with the clients for its calls.
type user struct {
	*Handler
	api   userAPI
	typed kubernetes.Interface
	rest  *rest.Config
	// key identifies the user's credentials. One user can have several.
	key  [sha256.Size]byte
	name string
	now  time.Time
}

// asUser serves a page as the user of the request. It redirects a browser without a
// session to the login.
func (h *Handler) asUser(serve func(*user, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		u, err := h.connect(r)
		switch {
		case errors.Is(err, ErrNobody) && h.cfg.Login != nil:
			h.toLogin(w, r)
			return
		case err != nil:
			h.write(w, r, http.StatusInternalServerError, failed(http.StatusInternalServerError, err.Error()), nil)
			return
		}
		if !strings.HasSuffix(r.URL.Path, "/"+LivePath) {
			ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
			defer cancel()
			r = r.WithContext(ctx)
		}
		serve(u, w, r)
	}
}

func (h *Handler) connect(r *http.Request) (*user, error) {
	who, err := h.cfg.User(r)
	if err != nil {
		return nil, err
	}
	api := rest.CopyConfig(who.API)
	api.QPS = -1 // the server limits users
	api.WarningHandler = rest.NoWarnings{}
	api.UserAgent = "certplane-console"
	u := &user{Handler: h, rest: api, key: who.Credentials, name: who.Name, now: h.cfg.Now()}
	connected, err := explain.Connect(api)
	if err != nil {
		return nil, err
	}
	u.api = userAPI{connected, &h.resources}
	u.api.Client = followedClient{inventory.Search(connected.Client, cmp.Or(h.cfg.Controllers, rights.ClusterNamespace), h.cfg.Now), u}
	if u.typed, err = kubernetes.NewForConfig(api); err != nil {
		return nil, err
	}
	return u, nil
}
