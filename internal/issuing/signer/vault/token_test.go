package vault_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/certplane/certplane/internal/issuing/signer/vault"
	"github.com/certplane/certplane/internal/issuing/signer/vault/vaulttest"
)

func TestOneLoginForMany(t *testing.T) {
	w := newWorld(t)
	for range 100 {
		w.mustSign(t, w.issuer(nil))
	}
	if logins := w.Count("/login"); logins != 1 {
		t.Errorf("%d logins", logins)
	}
	w.end(t)
	if valid := w.Valid(); valid != 1 { // the one that nobody logged in for
		t.Errorf("%d tokens are valid in the end", valid)
	}
}

func TestOneLoginAtATime(t *testing.T) {
	w := newWorld(t)
	begun := make(chan struct{})
	w.With(func(s *vaulttest.State) {
		s.Answer = func(_ http.ResponseWriter, r *http.Request, c vaulttest.Call) bool {
			if strings.HasSuffix(c.Path, "/login") {
				<-begun
			}
			return false
		}
	})
	var all sync.WaitGroup
	for range 20 {
		o := order(t)
		all.Go(func() {
			if _, err := w.pool.Sign(t.Context(), w.issuer(nil), w.access(), o); err != nil {
				t.Error(err)
			}
		})
	}
	close(begun)
	all.Wait()
	if logins := w.Count("/login"); logins != 1 {
		t.Errorf("%d logins", logins)
	}
}

// A caller that gives up while it logs in does not fail the others.
func TestLoginOfOneWhoGivesUp(t *testing.T) {
	w := newWorld(t)
	begun, gone := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w.With(func(s *vaulttest.State) {
		s.Answer = func(_ http.ResponseWriter, r *http.Request, c vaulttest.Call) bool {
			first := false
			once.Do(func() { first = true })
			if first {
				close(begun)
				<-r.Context().Done()
				close(gone)
			}
			return false
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	var both sync.WaitGroup
	first, second := order(t), order(t)
	both.Go(func() {
		if _, err := w.pool.Sign(ctx, w.issuer(nil), w.access(), first); err == nil {
			t.Error("the first is issued")
		}
	})
	<-begun
	both.Go(func() {
		if _, err := w.pool.Sign(t.Context(), w.issuer(nil), w.access(), second); err != nil {
			t.Errorf("the second: %v", err)
		}
	})
	cancel()
	<-gone
	both.Wait()
}

// calls are those after a token was kept for a while.
func TestLifeOfTokens(t *testing.T) {
	const sign, login, renew = "POST /v1/pki/sign/web", "POST /v1/auth/approle/login", "POST /v1/auth/token/renew-self"
	lease := func(seconds int, more ...any) map[string]any {
		l := map[string]any{"lease_duration": seconds}
		for n := 0; n < len(more); n += 2 {
			l[more[n].(string)] = more[n+1]
		}
		return l
	}
	tests := []struct {
		reason  string
		lease   map[string]any
		renewed map[string]any
		after   []time.Duration
		want    []string
	}{
		{reason: "it is young", lease: lease(3600), after: []time.Duration{39 * time.Minute}, want: []string{sign}},
		{reason: "two thirds of its life are over", lease: lease(3600), after: []time.Duration{41 * time.Minute}, want: []string{login, sign}},
		{reason: "it can be renewed, but need not", lease: lease(3600, "renewable", true), after: []time.Duration{29 * time.Minute}, want: []string{sign}},
		{reason: "half of its life is over", lease: lease(3600, "renewable", true), after: []time.Duration{31 * time.Minute}, want: []string{renew, sign}},
		{reason: "it is renewed again", lease: lease(3600, "renewable", true), after: []time.Duration{31 * time.Minute, 31 * time.Minute}, want: []string{renew, sign, renew, sign}},
		{reason: "it is too old to renew", lease: lease(3600, "renewable", true), after: []time.Duration{50 * time.Minute}, want: []string{login, sign}},
		{
			reason: "renewing gives little", lease: lease(3600, "renewable", true), renewed: lease(600, "renewable", true),
			after: []time.Duration{31 * time.Minute, 6 * time.Minute, 6 * time.Minute}, want: []string{renew, sign, sign, login, sign},
		},
		{reason: "it never ends", lease: lease(0), after: []time.Duration{1000 * time.Hour}, want: []string{sign}},
		{reason: "it lives for a second", lease: lease(1), after: []time.Duration{5 * time.Second, 6 * time.Second}, want: []string{sign, login, sign}},
		{reason: "it lives for a year", lease: lease(365 * 86400), after: []time.Duration{23 * time.Hour, 2 * time.Hour}, want: []string{sign, login, sign}},
		{reason: "it can be used three times", lease: lease(3600, "num_uses", 3), after: []time.Duration{time.Second, time.Second}, want: []string{sign, login, sign}},
		{reason: "it can be used once", lease: lease(3600, "num_uses", 1), after: []time.Duration{time.Second}, want: []string{login, sign}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			w.With(func(s *vaulttest.State) { s.Lease, s.Renewed = tc.lease, tc.renewed })
			w.mustSign(t, w.issuer(nil))
			before := len(w.Calls())
			for _, pause := range tc.after {
				w.clock.Step(pause)
				w.mustSign(t, w.issuer(nil))
			}
			w.end(t) // waits for tokens that are being revoked
			got := slices.DeleteFunc(w.Called()[before:], func(call string) bool { return strings.HasSuffix(call, "/revoke-self") })
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

func TestForbidden(t *testing.T) {
	token := by(vault.Auth{Token: &vault.SecretKey{Name: "token"}})
	tests := []struct {
		reason string
		change func(*vault.Issuer)
		before func(*world)
		want   string // calls, and the result
	}{
		{"the token was revoked", nil, func(w *world) { w.Revoke() }, "sign login revoke sign: none"},
		{"the policy was taken away", nil, func(w *world) {
			w.Revoke()
			w.With(func(s *vaulttest.State) { s.Forbidden = true })
		}, "sign login revoke sign: refused"},
		{"the secret id was, too", nil, func(w *world) {
			w.Revoke()
			w.With(func(s *vaulttest.State) { s.LoginError = "invalid role or secret ID" })
		}, "sign login revoke: init"},
		{"a token from a Secret was revoked", token, func(w *world) { w.Revoke() }, "sign sign: refused"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			i := w.issuer(tc.change)
			w.mustSign(t, i)
			w.clock.Step(time.Second)
			tc.before(w)
			before := len(w.Calls())
			_, err := w.sign(t, i)
			result := kind(err)
			w.pool.Wait()
			var got []string
			for _, call := range w.Called()[before:] {
				got = append(got, map[string]string{"/v1/pki/sign/web": "sign", "/v1/auth/approle/login": "login", "/v1/auth/token/revoke-self": "revoke"}[strings.Fields(call)[1]])
			}
			// The old token is revoked while the next call is under way.
			want, have := strings.Fields(strings.Split(tc.want, ":")[0]), slices.Clone(got)
			slices.Sort(want)
			slices.Sort(have)
			if diff := cmp.Diff(want, have); diff != "" || !strings.HasSuffix(tc.want, ": "+result) {
				t.Errorf("%v: %v (want %s)", got, err, tc.want)
			}
		})
	}
}

// A token from a Secret that has changed between the call and its repetition is
// used for the latter.
func TestTokenChangesInTheMeantime(t *testing.T) {
	w := newWorld(t)
	w.Allow("hvs.next")
	w.Revoke()
	w.Allow("hvs.next")
	w.With(func(s *vaulttest.State) {
		s.Answer = func(_ http.ResponseWriter, _ *http.Request, c vaulttest.Call) bool {
			w.put("token", "token", "hvs.next")
			return false
		}
	})
	w.mustSign(t, w.issuer(by(vault.Auth{Token: &vault.SecretKey{Name: "token"}})))
	if tokens := []string{w.Calls()[0].Token, w.Calls()[1].Token}; !slices.Equal(tokens, []string{"hvs.static", "hvs.next"}) {
		t.Errorf("tokens %v", tokens)
	}
}

// Another issuer, another version of its spec or of its Secret has a token of its
// own; the one that is replaced is revoked.
func TestTokensAreApart(t *testing.T) {
	w := newWorld(t)
	w.mustSign(t, w.issuer(nil))
	changes := []func(){
		func() { w.mustSign(t, w.issuer(func(i *vault.Issuer) { i.Generation = 2 })) },
		func() {
			w.put("role", "id", "other")
			w.mustSign(t, w.issuer(func(i *vault.Issuer) { i.Generation = 2 }))
		},
		func() { w.mustSign(t, w.issuer(func(i *vault.Issuer) { i.UID = "uid-2" })) },
	}
	for n, change := range changes {
		change()
		if logins := w.Count("/login"); logins != n+2 {
			t.Errorf("change %d: %d logins", n, logins)
		}
	}
	w.pool.Wait()
	if valid := w.Valid(); valid != 3 { // one of each issuer, and the static one
		t.Errorf("%d tokens are valid", valid)
	}
	if kept := testutil.ToFloat64(w.metric(t, "certplane_vault_tokens")); kept != 2 {
		t.Errorf("%v tokens are counted", kept)
	}
}

// The tokens of an issuer that was deleted do not stay.
func TestTokensOfDeletedIssuers(t *testing.T) {
	w := newWorld(t)
	w.mustSign(t, w.issuer(nil))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.pool.Start(ctx) }()
	for deadline := time.Now().Add(10 * time.Second); w.Valid() > 1 && time.Now().Before(deadline); {
		w.clock.Step(10 * time.Minute)
		<-time.After(time.Millisecond)
	}
	if w.Valid() != 1 {
		t.Error("the token is still valid")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
