package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	oidc "github.com/coreos/go-oidc"
	"golang.org/x/oauth2"
	"k8s.io/klog/v2"
)

const (
	oidcStart    = "oidc/start"
	oidcCallback = "oidc/callback"
	oidcCookie   = "__Host-certplane-oidc"
	// oidcTime is the time limit for a user at the provider.
	oidcTime = 10 * time.Minute
	// providerTimeout limits the duration of calls to the provider.
	providerTimeout = 15 * time.Second
	// providerPause is the minimum time between the starts of two reads of the provider's
	// document.
	providerPause = 2 * time.Second
	// maxRedeems is the maximum number of returning browsers handled at once,
	// maxRedeemsOfOne the maximum per address: each causes a call to the provider.
	maxRedeems      = 20
	maxRedeemsOfOne = 4
)

// OIDC lets users log in at a provider of OpenID Connect with the authorization code flow
// and PKCE. The ID token is the user's credential at the API, which must accept the
// provider's tokens for the client ID.
type OIDC struct {
	IssuerURL, ClientID string
	// Scopes are requested in addition to openid.
	Scopes []string
	// Connect returns an HTTP client for the provider, and the client's secret there;
	// empty for a public client.
	Connect func(context.Context) (*http.Client, string, error)

	mu      sync.Mutex
	reading *reading // guarded by mu; nil until somebody logs in
	// redeeming are the calls for browsers that come back from the provider.
	redeeming bounds
}

// flow is the data that the browser stores while the user is at the provider.
type flow struct {
	State, Nonce, Verifier string
	// Page is shown after the login.
	Page string
}

func (o *OIDC) addTo(h *Handler) {
	o.redeeming.limit, o.redeeming.each = maxRedeems, maxRedeemsOfOne
	h.mux.HandleFunc("GET "+h.cfg.Base+oidcStart, h.startOIDC)
	h.mux.HandleFunc("GET "+h.cfg.Base+oidcCallback, h.finishOIDC)
}

// oidcClient is the console's client at the provider.
type oidcClient struct {
	oauth2.Config
	provider *oidc.Provider
	reach    *http.Client
}

// connect returns the console's client at the provider; the provider's document is read
// once.
func (o *OIDC) connect(r *http.Request, base string, now time.Time) (*oidcClient, error) {
	reach, secret, err := o.Connect(r.Context())
	if err != nil {
		return nil, err
	}
	read := o.read(reach, now)
	select {
	case <-read.done:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if read.err != nil {
		return nil, fmt.Errorf("reading what the provider says of itself: %w", read.err)
	}
	return &oidcClient{
		Config: oauth2.Config{
			ClientID: o.ClientID, ClientSecret: secret, Endpoint: read.provider.Endpoint(),
			RedirectURL: "https://" + r.Host + base + oidcCallback, Scopes: append([]string{oidc.ScopeOpenID}, o.Scopes...),
		},
		provider: read.provider, reach: read.reach,
	}, nil
}

// reading is one read of the provider's document.
type reading struct {
	began time.Time
	reach *http.Client
	// done is closed when the fields below are set.
	done     chan struct{}
	provider *oidc.Provider
	err      error
}

// failedJustNow reports whether it has failed too recently to retry.
func (r *reading) failedJustNow(now time.Time) bool { return now.Sub(r.began) < providerPause }

// read returns the read of the provider's document, which may be in progress. Any browser
// can cause one: only one runs at a time, and none starts soon after a failure.
func (o *OIDC) read(reach *http.Client, now time.Time) *reading {
	o.mu.Lock()
	defer o.mu.Unlock()
	if last := o.reading; last != nil {
		select {
		case <-last.done:
			if last.reach.Transport == reach.Transport && (last.err == nil || last.failedJustNow(now)) {
				return last
			}
		default:
			return last
		}
	}
	started := &reading{began: now, done: make(chan struct{})}
	started.reach = &http.Client{Transport: reach.Transport, CheckRedirect: reach.CheckRedirect, Timeout: providerTimeout}
	o.reading = started
	go func() {
		defer close(started.done)
		// The provider keeps the context for later calls.
		started.provider, started.err = oidc.NewProvider(oidc.ClientContext(context.Background(), started.reach), o.IssuerURL)
	}()
	return started
}

// startOIDC redirects the browser to the provider.
func (h *Handler) startOIDC(w http.ResponseWriter, r *http.Request) {
	client, err := h.cfg.Login.OIDC.connect(r, h.cfg.Base, h.cfg.Now())
	if err != nil {
		h.failOIDC(w, r, err)
		return
	}
	f := flow{State: oauth2.GenerateVerifier(), Nonce: oauth2.GenerateVerifier(), Verifier: oauth2.GenerateVerifier(), Page: h.asked(r.FormValue(pageAfter))}
	text, err := json.Marshal(f)
	if err != nil {
		h.failOIDC(w, r, err)
		return
	}
	kept, err := h.cfg.Login.Sealer.Seal(forOIDC, string(text), oidcTime)
	if err != nil {
		h.failOIDC(w, r, err)
		return
	}
	setCookie(w, oidcCookie, kept, int(oidcTime/time.Second))
	http.Redirect(w, r, client.AuthCodeURL(f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), http.StatusSeeOther)
}

var (
	errOIDCFlow = errors.New("the login was not begun in this browser, or took too long: try again")
	errOIDCBusy = errors.New("too many logins are under way: try again in a few seconds")
)

// finishOIDC starts a session with the provider's answer.
func (h *Handler) finishOIDC(w http.ResponseWriter, r *http.Request) {
	setCookie(w, oidcCookie, "", -1)
	token, page, err := h.redeem(r)
	if err != nil {
		h.failOIDC(w, r, err)
		return
	}
	h.beginSession(w, r, credentials{token: token}, page)
}

// redeem returns the ID token for the provider's code, and the page that the user
// requested.
func (h *Handler) redeem(r *http.Request) (token, page string, err error) {
	query := r.URL.Query()
	cookie, err := r.Cookie(oidcCookie)
	if err != nil {
		return "", "", errOIDCFlow
	}
	text, err := h.cfg.Login.Sealer.Open(forOIDC, cookie.Value)
	if err != nil {
		return "", "", errOIDCFlow
	}
	var f flow
	if err := json.Unmarshal([]byte(text), &f); err != nil || f.State == "" || query.Get("state") != f.State {
		return "", "", errOIDCFlow
	}
	if refusal := query.Get("error"); refusal != "" {
		return "", "", fmt.Errorf("the provider has refused: %q %q", refusal, query.Get("error_description"))
	}
	address, _, _ := net.SplitHostPort(r.RemoteAddr)
	end, ok := h.cfg.Login.OIDC.redeeming.begin(address)
	if !ok {
		return "", "", errOIDCBusy
	}
	defer end()
	client, err := h.cfg.Login.OIDC.connect(r, h.cfg.Base, h.cfg.Now())
	if err != nil {
		return "", "", err
	}
	ctx := oidc.ClientContext(r.Context(), client.reach)
	granted, err := client.Exchange(ctx, query.Get("code"), oauth2.VerifierOption(f.Verifier))
	if err != nil {
		return "", "", fmt.Errorf("asking the provider for a token: %w", withoutBody(err))
	}
	raw, _ := granted.Extra("id_token").(string)
	id, err := client.provider.Verifier(&oidc.Config{ClientID: client.ClientID}).Verify(ctx, raw)
	if err != nil {
		return "", "", fmt.Errorf("verifying the provider's token: %w", err)
	}
	if id.Nonce != f.Nonce {
		return "", "", errOIDCFlow
	}
	return raw, f.Page, nil
}

// withoutBody returns an error without the body of the provider's answer.
func withoutBody(err error) error {
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) {
		return fmt.Errorf("it answers %s %s", refused.Response.Status, refused.ErrorCode)
	}
	return err
}

func (h *Handler) failOIDC(w http.ResponseWriter, r *http.Request, err error) {
	klog.FromContext(r.Context()).Info("A login at the provider of OpenID Connect has failed", "err", err)
	h.loginPage(w, r, http.StatusBadGateway, "Logging in at the provider: "+err.Error())
}
