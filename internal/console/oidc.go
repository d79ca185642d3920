package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	// oidcTime is how long a user has at the provider.
	oidcTime = 10 * time.Minute
	// providerTimeout bounds the calls to the provider.
	providerTimeout = 15 * time.Second
)

// OIDC lets users log in at a provider of OpenID Connect, by the authorization code flow
// with PKCE. The ID token is the user's credential at the API, which has to accept the
// provider's tokens for the client ID.
type OIDC struct {
	IssuerURL, ClientID string
	// Scopes are asked for besides openid.
	Scopes []string
	// Connect returns what reaches the provider, and the secret of the client there;
	// empty if it is a public one.
	Connect func(context.Context) (*http.Client, string, error)

	mu       sync.Mutex
	provider *oidc.Provider
	reach    *http.Client // with which provider was made
}

// flow is what the browser keeps while the user is at the provider.
type flow struct {
	State, Nonce, Verifier string
	// Page is shown after the login.
	Page string
}

func (o *OIDC) addTo(h *Handler) {
	h.mux.HandleFunc("GET "+h.cfg.Base+oidcStart, h.startOIDC)
	h.mux.HandleFunc("GET "+h.cfg.Base+oidcCallback, h.finishOIDC)
}

// oidcClient is the console at the provider.
type oidcClient struct {
	oauth2.Config
	provider *oidc.Provider
	reach    *http.Client
}

// connect returns the console at the provider, whose document is read once.
func (o *OIDC) connect(r *http.Request, base string) (*oidcClient, error) {
	reach, secret, err := o.Connect(r.Context())
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.provider == nil || o.reach.Transport != reach.Transport {
		bounded := &http.Client{Transport: reach.Transport, CheckRedirect: reach.CheckRedirect, Timeout: providerTimeout}
		// The provider keeps the context for later calls.
		provider, err := oidc.NewProvider(oidc.ClientContext(context.Background(), bounded), o.IssuerURL)
		if err != nil {
			return nil, fmt.Errorf("reading what the provider says of itself: %w", err)
		}
		o.provider, o.reach = provider, bounded
	}
	return &oidcClient{
		Config: oauth2.Config{
			ClientID: o.ClientID, ClientSecret: secret, Endpoint: o.provider.Endpoint(),
			RedirectURL: "https://" + r.Host + base + oidcCallback, Scopes: append([]string{oidc.ScopeOpenID}, o.Scopes...),
		},
		provider: o.provider, reach: o.reach,
	}, nil
}

// startOIDC sends the browser to the provider.
func (h *Handler) startOIDC(w http.ResponseWriter, r *http.Request) {
	client, err := h.cfg.Login.OIDC.connect(r, h.cfg.Base)
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

var errOIDCFlow = errors.New("the login was not begun in this browser, or took too long: try again")

// finishOIDC begins a session with what the provider gives.
func (h *Handler) finishOIDC(w http.ResponseWriter, r *http.Request) {
	setCookie(w, oidcCookie, "", -1)
	token, page, err := h.redeem(r)
	if err != nil {
		h.failOIDC(w, r, err)
		return
	}
	h.beginSession(w, r, token, page)
}

// redeem returns the ID token for the code that the provider has sent, and the page that
// the user wanted.
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
	client, err := h.cfg.Login.OIDC.connect(r, h.cfg.Base)
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
