package acme

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	cmacme "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/certplane/certplane/internal/acme/acmetest"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/pki"
)

func external(keyID string) *cmacme.ACMEExternalAccountBinding {
	return &cmacme.ACMEExternalAccountBinding{
		KeyID: keyID, Key: cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: "eab"}, Key: "mac"},
	}
}

// A server that cannot be reached is tried again after growing waits, and not
// whenever the status has changed.
func TestUnreachable(t *testing.T) {
	down := true
	w := newWorld(t, acmetest.Options{Hook: func(acmetest.Call) *acmetest.Reply {
		if down {
			return &acmetest.Reply{Lost: true}
		}
		return nil
	}}, nil)
	for i, wait := range []time.Duration{5, 10, 20, 40, 80, 160, 300, 300} {
		before := w.requests()
		for range 3 {
			ready := w.says(t, "ErrRegisterACMEAccount Failed to register ACME account: ")
			if !ready.Uninitialized || ready.Retry != nil || !ready.Again.Equal(w.clock.Now().Add(wait*time.Second)) {
				t.Fatalf("attempt %d: %+v", i, ready)
			}
		}
		if got := w.requests() - before; got != 1 {
			t.Fatalf("attempt %d: %d requests", i, got)
		}
		w.clock.SetTime(w.clock.Now().Add(wait * time.Second))
	}
	down = false
	w.mustBeReady(t)
}

// A rate limit is waited for; it is no refusal.
func TestRateLimit(t *testing.T) {
	w := newWorld(t, acmetest.Options{Hook: func(c acmetest.Call) *acmetest.Reply {
		if c.Kind == acmetest.NewAccount && c.N == 1 {
			return acmetest.RateLimited("600", "too many new registrations")
		}
		return nil
	}}, nil)
	until := w.clock.Now().Add(10 * time.Minute)
	want := fmt.Sprintf("ErrRegisterACMEAccount Failed to register ACME account: waiting until %s because the CA limits new accounts: 429 urn:ietf:params:acme:error:rateLimited: too many new registrations", until.UTC().Format(time.RFC3339))
	for range 3 {
		if ready := w.says(t, want); !ready.Again.Equal(until) || ready.Retry != nil {
			t.Errorf("%+v", ready)
		}
	}
	w.edit(func(a *cmacme.ACMEIssuer) { a.Email = "" }) // even then
	w.says(t, want)
	if got := w.Count(acmetest.NewAccount); got != 1 {
		t.Errorf("%d attempts", got)
	}
	w.clock.SetTime(until)
	w.mustBeReady(t)
}

func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		reason string
		reply  *acmetest.Reply
		want   string
		waits  bool
	}{
		{
			reason: "a contact", reply: acmetest.Refused(400, rfc8555.ProblemInvalidContact, "no such domain"), waits: true,
			want: "400 urn:ietf:params:acme:error:invalidContact: no such domain",
		},
		{reason: "a key", reply: acmetest.Refused(400, rfc8555.ProblemBadPublicKey, "weak"), want: "400 urn:", waits: true},
		{
			reason: "terms", want: "403 urn:ietf:params:acme:error:userActionRequired: new terms; see https://ca.example.com/terms", waits: true,
			reply: func() *acmetest.Reply {
				r := acmetest.Refused(403, rfc8555.ProblemUserActionRequired, "new terms")
				r.Header = http.Header{"Link": {`<https://ca.example.com/terms>;rel="terms-of-service"`}}
				return r
			}(),
		},
		{
			reason: "something to do", want: "403 urn:ietf:params:acme:error:userActionRequired: call us; see https://ca.example.com/call", waits: true,
			reply: func() *acmetest.Reply {
				r := acmetest.Refused(403, rfc8555.ProblemUserActionRequired, "call us")
				r.Problem.Instance = "https://ca.example.com/call"
				return r
			}(),
		},
		{reason: "an error of the server", reply: acmetest.Refused(500, rfc8555.ProblemMalformed, "oops"), want: "500 urn:"},
		{reason: "a proxy", reply: &acmetest.Reply{Status: 403, Body: "<html>secret</html>"}, want: "403 : the answer is not a problem document of an ACME server: text/html of 19 bytes"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			w := newWorld(t, acmetest.Options{Hook: func(c acmetest.Call) *acmetest.Reply {
				if c.Kind == acmetest.NewAccount {
					return test.reply
				}
				return nil
			}}, nil)
			for range 2 {
				ready := w.says(t, "ErrRegisterACMEAccount Failed to register ACME account: "+test.want)
				if waits := ready.Again.After(w.clock.Now().Add(time.Hour)); ready.OK || waits != test.waits || strings.Contains(ready.Message, "secret") {
					t.Errorf("%+v", ready)
				}
			}
			if got := w.Count(acmetest.NewAccount); got != 1 {
				t.Errorf("%d attempts", got)
			}
			w.Change(func(o *acmetest.Options) { o.Hook = nil })
			w.edit(func(a *cmacme.ACMEIssuer) { a.Email = "other@example.com" })
			w.mustBeReady(t)
		})
	}
}

func TestEmail(t *testing.T) {
	for _, noContact := range []bool{false, true} {
		w := newWorld(t, acmetest.Options{NoContact: noContact}, nil)
		w.mustBeReady(t)
		for _, step := range []struct {
			reason, email string
			updates       int
			want          string
		}{
			{"another address", "New@Example.com", 1, "[mailto:new@example.com]"},
			{"another case", "nEW@example.com", 1, "[mailto:new@example.com]"},
			{"none", "", 2, "[]"},
			{"one again", "admin@example.com", 3, "[mailto:admin@example.com]"},
		} {
			w.edit(func(a *cmacme.ACMEIssuer) { a.Email = step.email })
			w.mustBeReady(t)
			w.mustBeReady(t)
			status := w.issuer.Status.ACME
			if status.LastRegisteredEmail != step.email || w.Count(acmetest.Account) != step.updates || fmt.Sprint(w.Accounts()[status.URI]) != step.want {
				t.Errorf("%s (no contacts: %v): %+v after %d updates: %v", step.reason, noContact, status, w.Count(acmetest.Account), w.Accounts())
			}
		}
	}
	w := newWorld(t, acmetest.Options{Hook: func(c acmetest.Call) *acmetest.Reply {
		if c.Kind == acmetest.Account {
			return acmetest.Refused(400, rfc8555.ProblemInvalidContact, "no")
		}
		return nil
	}}, nil)
	w.mustBeReady(t)
	w.edit(func(a *cmacme.ACMEIssuer) { a.Email = "x@y" })
	w.says(t, "ErrUpdateACMEAccount Failed to update ACME account:400 urn:ietf:params:acme:error:invalidContact: no")
}

func TestExternalAccount(t *testing.T) {
	mac := []byte("\xff\xfe a MAC key that is not of 256 bits")
	right := base64.RawURLEncoding.EncodeToString(mac)
	newBound := func(t *testing.T) *world {
		return newWorld(t, acmetest.Options{ExternalAccounts: map[string][]byte{"kid": mac}}, func(a *cmacme.ACMEIssuer) { a.ExternalAccountBinding = external("kid") })
	}
	for _, test := range []struct {
		reason string
		data   map[string]string
		want   string
	}{
		{"right", map[string]string{"mac": right}, registered},
		{"with a line break", map[string]string{"mac": right + "\n"}, registered},
		{"padded", map[string]string{"mac": base64.URLEncoding.EncodeToString(mac)}, registered},
		{"base64", map[string]string{"mac": base64.StdEncoding.EncodeToString(mac)}, registered},
		{"no Secret", nil, `ErrRegisterACMEAccount Failed to register ACME account: secrets "eab" not found`},
		{"no entry", map[string]string{"x": "y"}, `ErrRegisterACMEAccount Failed to register ACME account: failed to find external account binding key data in Secret "eab" at index "mac"`},
		{"no base64", map[string]string{"mac": "?"}, "ErrRegisterACMEAccount Failed to register ACME account: failed to decode external account binding key data: illegal base64 data"},
		{"another key", map[string]string{"mac": "AAAA"}, "ErrRegisterACMEAccount Failed to register ACME account: 403 urn:ietf:params:acme:error:unauthorized: "},
	} {
		t.Run(test.reason, func(t *testing.T) {
			w := newBound(t)
			if test.data != nil {
				w.put(t, "ns", "eab", test.data)
			}
			if ready := w.says(t, test.want); ready.OK {
				return
			}
			w.put(t, "ns", "eab", map[string]string{"mac": right})
			w.mustBeReady(t)
		})
	}
	w := newBound(t)
	w.put(t, "ns", "eab", map[string]string{"mac": right})
	w.mustBeReady(t)
	w.edit(func(a *cmacme.ACMEIssuer) { a.ExternalAccountBinding = external("another") }) // the account is known
	w.mustBeReady(t)
	if err := w.client.Delete(t.Context(), w.secret(t, "eab")); err != nil {
		t.Fatal(err)
	}
	w.mustBeReady(t)
	if got := w.Count(acmetest.NewAccount); got != 1 {
		t.Errorf("%d new accounts", got)
	}
}

// The key is replaced once for each value of the annotation.
func TestRotate(t *testing.T) {
	w := newWorld(t, acmetest.Options{}, nil)
	w.issuer.Annotations[RotateAnnotation] = "first" // the first key is new anyway
	w.mustBeReady(t)
	uri, key := w.issuer.Status.ACME.URI, string(w.secret(t, "account").Data["tls.key"])
	w.mustBeReady(t)
	if w.Count(acmetest.KeyChange) != 0 {
		t.Error("a new key is replaced")
	}
	w.issuer.Annotations[RotateAnnotation] = "second"
	if ready := w.says(t, registered); ready.Notice != "The key of the ACME account was replaced" {
		t.Errorf("the Event says %q", ready.Notice)
	}
	secret := w.secret(t, "account")
	if len(secret.Data) != 1 || string(secret.Data["tls.key"]) == key || secret.Annotations[RotateAnnotation] != "second" {
		t.Error("the Secret does not have the new key alone")
	}
	w.mustBeReady(t)
	w.restart(t)
	w.mustBeReady(t)
	c, err := w.accounts.Of(t.Context(), w.issuer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.FindAccount(t.Context()); err != nil || c.Account() != uri || w.Count(acmetest.KeyChange) != 1 {
		t.Errorf("%s instead of %s after %d changes: %v", c.Account(), uri, w.Count(acmetest.KeyChange), err)
	}
}

// Wherever the replacement of a key is interrupted, the account survives, and
// the next passes finish it.
func TestRotateInterrupted(t *testing.T) {
	lost := errors.New("the answer was lost")
	for _, test := range []struct {
		reason string
		update int             // which write of the Secret fails; 0 for none
		acts   bool            // whether it is stored all the same
		reply  *acmetest.Reply // instead of the answer to the change
	}{
		{reason: "the next key is not stored", update: 1},
		{reason: "the next key is stored, and the answer is lost", update: 1, acts: true},
		{reason: "the change is lost before the server acts", reply: &acmetest.Reply{Lost: true}},
		{reason: "the change is lost after the server acts", reply: &acmetest.Reply{Lost: true, Acts: true}},
		{reason: "the new key is not stored", update: 2},
		{reason: "the new key is stored, and the answer is lost", update: 2, acts: true},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restart %v", test.reason, restart), func(t *testing.T) {
				w := newWorld(t, acmetest.Options{}, nil)
				updates := 0
				w.intercept(t, interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
					updates++
					if updates != test.update {
						return c.Update(ctx, o, opts...)
					}
					if test.acts {
						if err := c.Update(ctx, o, opts...); err != nil {
							return err
						}
					}
					return lost
				}})
				w.mustBeReady(t)
				uri, key := w.issuer.Status.ACME.URI, string(w.secret(t, "account").Data["tls.key"])
				w.Change(func(o *acmetest.Options) {
					o.Hook = func(c acmetest.Call) *acmetest.Reply {
						if c.Kind == acmetest.KeyChange && c.N == 1 {
							return test.reply
						}
						return nil
					}
				})
				w.issuer.Annotations[RotateAnnotation] = "now"
				w.mustBeReady(t)
				if restart {
					w.restart(t)
				}
				for range 3 {
					w.clock.SetTime(w.clock.Now().Add(time.Minute))
					w.mustBeReady(t)
				}
				secret := w.secret(t, "account")
				if len(secret.Data) != 1 || string(secret.Data["tls.key"]) == key || w.issuer.Status.ACME.URI != uri || len(w.Accounts()) != 1 {
					t.Errorf("the replacement is not finished: %d entries, %s instead of %s", len(secret.Data), w.issuer.Status.ACME.URI, uri)
				}
				if c, err := w.accounts.Of(t.Context(), w.issuer); err != nil {
					t.Error(err)
				} else if _, err := c.FindAccount(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// A server that does not replace keys leaves the issuer ready.
func TestRotateRefused(t *testing.T) {
	for _, test := range []struct {
		reason  string
		options acmetest.Options
		want    string
		entries int // of the Secret, while the annotation asks for another key
	}{
		{"it cannot", acmetest.Options{NoKeyChange: true}, "the ACME server cannot replace", 1},
		{"it refuses", acmetest.Options{Hook: func(c acmetest.Call) *acmetest.Reply {
			if c.Kind == acmetest.KeyChange {
				return acmetest.Refused(403, rfc8555.ProblemUnauthorized, "no")
			}
			return nil
		}}, "403 urn:", 2},
	} {
		t.Run(test.reason, func(t *testing.T) {
			w := newWorld(t, test.options, nil)
			w.put(t, "ns", "account", map[string]string{"tls.key": encoded(t, newAccountKey(t, pki.ECDSAP256))})
			w.issuer.Annotations[RotateAnnotation] = "now"
			if ready := w.says(t, registered); !strings.Contains(ready.Notice, "could not be replaced: "+test.want) {
				t.Errorf("%+v", ready)
			}
			before := w.requests()
			w.mustBeReady(t)
			if w.requests() != before {
				t.Error("it is tried again at once")
			}
			if got := len(w.secret(t, "account").Data); got != test.entries {
				t.Errorf("the Secret has %d entries", got)
			}
			delete(w.issuer.Annotations, RotateAnnotation)
			w.mustBeReady(t)
			if got := len(w.secret(t, "account").Data); got != 1 {
				t.Errorf("the Secret still has %d entries", got)
			}
		})
	}
}
