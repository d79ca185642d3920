package issuance_test

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/issuance"
)

// half and least choose the middle of a bound, and the start.
func half(bound time.Duration) time.Duration { return bound / 2 }
func least(time.Duration) time.Duration      { return 0 }

// newSuggested returns a world whose certificate is in use and described in the
// status, and the certificate.
func newSuggested(t *testing.T) (*world, *x509.Certificate) {
	t.Helper()
	w := newWorld(t)
	w.requests[0].CreationTimestamp = metav1.NewTime(now)
	issuance.SetReadiness(w.crt, issuance.Ready(w.situation(), now), now)
	leaf := issuance.AskAbout(w.situation(), now)
	if leaf == nil {
		t.Fatal("there is nothing to ask about")
	}
	return w, leaf
}

// suggest writes an answer into the status.
func (w *world) suggest(leaf *x509.Certificate, answer issuance.Suggestion, at time.Time) *cmv1.CertificateACMEARIStatus {
	w.t.Helper()
	issuance.Suggest(w.crt, leaf, answer, at, half)
	issuance.SetReadiness(w.crt, issuance.Ready(w.situation(), at), at)
	if w.crt.Status.ACME == nil {
		return nil
	}
	return w.crt.Status.ACME.ARI
}

// window is an answer with a window, in hours after now.
func window(start, end time.Duration) issuance.Suggestion {
	return issuance.Suggestion{Info: &rfc8555.RenewalInfo{Start: now.Add(start * hour), End: now.Add(end * hour)}}
}

// renewedAt fails unless the certificate is renewed at a time, by the status and
// in fact.
func (w *world) renewedAt(want time.Time) {
	w.t.Helper()
	if got := w.crt.Status.RenewalTime; got == nil || !got.Time.Equal(want) {
		w.t.Errorf("the status says %v, want %v", got, want)
	}
	if start := backoff.Decide(w.situation(), want.Add(-time.Second)); !start.Why.None() || !start.Again.Equal(want) {
		w.t.Errorf("a second before %v: %+v", want, start)
	}
	if start := backoff.Decide(w.situation(), want); start.Why.Reason != issuance.ReasonRenewing {
		w.t.Errorf("at %v: %+v", want, start)
	}
}

// A time is chosen once for each window, and the certificate is renewed at that
// time, whatever happens in between.
func TestSuggestedTime(t *testing.T) {
	w, leaf := newSuggested(t)
	classic := w.crt.Status.RenewalTime.Time
	w.renewedAt(classic)
	ari := w.suggest(leaf, window(40, 44), now)
	w.renewedAt(now.Add(42 * hour))
	if !ari.LastChecked.Time.Equal(now) || !ari.NextCheck.Time.Equal(now.Add(6*hour+18*time.Minute)) || ari.LastError != "" {
		t.Errorf("%+v", ari)
	}
	if next := issuance.AskAt(w.crt, now.Add(hour)); !next.Equal(ari.NextCheck.Time) {
		t.Errorf("asked at %v, want %v", next, ari.NextCheck)
	}

	chosen := now.Add(43*hour + 7*time.Second) // another time of the window
	w.crt.Status.RenewalTime = &metav1.Time{Time: chosen}
	w.suggest(leaf, window(40, 44), now.Add(7*hour))
	w.renewedAt(chosen)

	w.suggest(leaf, window(20, 24), now.Add(14*hour))
	w.renewedAt(now.Add(22 * hour))

	w.suggest(leaf, window(-200, 12), now.Add(14*hour)) // in the past
	if start := backoff.Decide(w.situation(), now.Add(14*hour)); start.Why.Reason != issuance.ReasonRenewing {
		t.Errorf("a window in the past: %+v", start)
	}

	if ari := w.suggest(leaf, issuance.Suggestion{}, now.Add(14*hour)); ari != nil {
		t.Errorf("the CA has no renewal information: %+v", ari)
	}
	w.renewedAt(classic)
}

// A CA that always suggests the past is asked for a certificate once an hour.
func TestSuggestionsAreApart(t *testing.T) {
	w, leaf := newSuggested(t)
	w.suggest(leaf, issuance.Suggestion{Info: &rfc8555.RenewalInfo{Start: leaf.NotBefore, End: leaf.NotBefore.Add(2 * time.Second)}}, now)
	w.renewedAt(now.Add(hour))
	start := backoff.Decide(w.situation(), now.Add(30*time.Minute))
	if !start.Again.Equal(now.Add(hour)) || strings.Contains(fmt.Sprint(w.crt.Status.Conditions), "shorten spec.renewBefore") {
		t.Errorf("%+v %+v", start, w.crt.Status.Conditions)
	}
}

// Errors that can pass keep the window for some hours. After others, and after too
// many, the certificate is renewed by its spec.
func TestSuggestionErrors(t *testing.T) {
	problem := func(status int) error { return fmt.Errorf("asking: %w", &rfc8555.Problem{Status: status}) }
	tests := []struct {
		reason string
		err    error
		passes bool
	}{
		{"no answer", errors.New("dial tcp: refused"), true},
		{"500", problem(500), true},
		{"503", problem(503), true},
		{"429", problem(429), true},
		{"404", problem(404), false},
		{"400", problem(400), false},
		{"no window", fmt.Errorf("%w: it has none", rfc8555.ErrNoWindow), false},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w, leaf := newSuggested(t)
			classic, chosen := w.crt.Status.RenewalTime.Time, now.Add(42*hour)
			w.suggest(leaf, window(40, 44), now)
			at := now.Add(7 * hour)
			ari := w.suggest(leaf, issuance.Suggestion{Err: tc.err}, at)
			if ari.LastError != tc.err.Error() || !ari.LastChecked.Time.Equal(at) {
				t.Errorf("%+v", ari)
			}
			if !tc.passes {
				w.renewedAt(classic)
				if wait := ari.NextCheck.Sub(at); wait < 6*hour || wait > 7*hour || ari.SuggestedWindow != nil {
					t.Errorf("%+v", ari)
				}
				return
			}
			w.renewedAt(chosen)
			for asked := 1; ari.SuggestedWindow != nil; asked++ {
				if wait := ari.NextCheck.Sub(at); wait < time.Minute || wait > 6*hour || asked > 20 {
					t.Fatalf("the wait after error %d is %v", asked, wait)
				}
				at = ari.NextCheck.Time
				ari = w.suggest(leaf, issuance.Suggestion{Err: tc.err}, at)
			}
			w.renewedAt(classic)
			w.suggest(leaf, window(40, 44), at)
			w.renewedAt(chosen)
		})
	}
}

// A window that cannot be one of the certificate is an error.
func TestImpossibleWindow(t *testing.T) {
	w, leaf := newSuggested(t)
	classic := w.crt.Status.RenewalTime.Time
	ari := w.suggest(leaf, window(-300, -200), now)
	if !strings.Contains(ari.LastError, "ended long before the certificate began") || ari.SuggestedWindow != nil {
		t.Errorf("%+v", ari)
	}
	w.renewedAt(classic)
}

// What is known of another certificate, or from another issuer, does not count.
func TestForeignSuggestion(t *testing.T) {
	tests := []struct {
		reason string
		change func(w *world)
		drops  bool
	}{
		{"nothing has changed", func(*world) {}, false},
		{"another certificate", func(w *world) {
			cr := w.newRequest(w.key)
			w.answer(cr, now.Add(hour))
			w.secret = w.newSecret(w.key, cr)
		}, true},
		{"no Secret", func(w *world) { w.secret = nil }, true},
		{"another issuer", func(w *world) { w.secret.Annotations[cmv1.IssuerNameAnnotationKey] = "other" }, true},
		{"renewed by hand", func(w *world) {
			w.crt.Spec.Renewal = &cmv1.CertificateRenewal{Policy: cmv1.CertificateRenewalPolicyDisabled}
		}, true},
		{"a new certificate", func(w *world) { issuance.SetIssued(w.crt) }, true},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w, leaf := newSuggested(t)
			w.suggest(leaf, window(40, 44), now)
			tc.change(w)
			ready := issuance.Ready(w.situation(), now)
			issuance.SetReadiness(w.crt, ready, now)
			if dropped := w.crt.Status.ACME == nil; dropped != tc.drops {
				t.Errorf("dropped: %v", dropped)
			}
			if at := w.crt.Status.RenewalTime; (at != nil && at.Time.Equal(now.Add(42*hour))) == tc.drops {
				t.Errorf("renewed at %v", at)
			}
		})
	}
	w, leaf := newSuggested(t)
	w.suggest(leaf, window(40, 44), now)
	s := w.situation()
	s.IgnoresSuggestions = true
	if ready := issuance.Ready(s, now); !ready.DropsSuggestion || ready.RenewalTime.Time.Equal(now.Add(42*hour)) {
		t.Errorf("%+v", ready)
	}
}

func TestAskAt(t *testing.T) {
	tests := []struct {
		reason string
		change func(crt *cmv1.Certificate)
		at     time.Duration // in hours after now
		want   time.Duration // negative: never
	}{
		{"it was never asked about", func(crt *cmv1.Certificate) { crt.Status.ACME = nil }, 1, 1},
		{"it was asked about", func(*cmv1.Certificate) {}, 1, 6},
		{"it is due", func(*cmv1.Certificate) {}, 8, 8},
		{"no certificate", func(crt *cmv1.Certificate) { crt.Status.NotAfter = nil }, 8, -1},
		{"it has expired", func(*cmv1.Certificate) {}, 1000, -1},
		{"the next one is being issued", func(crt *cmv1.Certificate) { issuance.SetRenewing(crt, now) }, 8, -1},
		{"it is being deleted", func(crt *cmv1.Certificate) { crt.DeletionTimestamp = &metav1.Time{Time: now} }, 8, -1},
		{"renewed by hand", func(crt *cmv1.Certificate) {
			crt.Spec.Renewal = &cmv1.CertificateRenewal{Policy: cmv1.CertificateRenewalPolicyDisabled}
		}, 8, -1},
	}
	for _, tc := range tests {
		w, leaf := newSuggested(t)
		issuance.Suggest(w.crt, leaf, window(40, 44), now, least)
		tc.change(w.crt)
		got := issuance.AskAt(w.crt, now.Add(tc.at*hour))
		if tc.want < 0 && !got.IsZero() || tc.want >= 0 && !got.Equal(now.Add(tc.want*hour)) {
			t.Errorf("%s: %v", tc.reason, got)
		}
	}
}

func TestSuggestionFinding(t *testing.T) {
	const url = "https://ca.example/incident"
	explained := func(s issuance.Suggestion, url string) issuance.Suggestion {
		s.Info.ExplanationURL = url
		return s
	}
	failed := issuance.Suggestion{Err: errors.New("no answer")}
	tests := []struct {
		reason        string
		first, second issuance.Suggestion
		event         string
		text          string
	}{
		{"the same window", window(40, 44), window(40, 44), "", ""},
		{"it has moved", window(40, 44), window(20, 24), issuance.EventRenewalSuggested, "renewed at 2026-03-02T10:00:00Z"},
		{"it has an explanation", window(40, 44), explained(window(40, 44), url), issuance.EventRenewalSuggested, url},
		{"the same explanation", explained(window(40, 44), url), explained(window(40, 44), url), "", ""},
		{"not a page", window(40, 44), explained(window(40, 44), "javascript:alert(1)"), "", ""},
		{"an error", window(40, 44), failed, issuance.EventSuggestionError, "no answer"},
		{"the next error", failed, failed, "", ""},
		{"no error any more", failed, window(40, 44), "", ""},
	}
	for _, tc := range tests {
		w, leaf := newSuggested(t)
		w.suggest(leaf, tc.first, now)
		before := w.crt.DeepCopy()
		w.suggest(leaf, tc.second, now)
		got, _ := issuance.SuggestionFinding(before, w.crt)
		if got.Reason != tc.event || !strings.Contains(got.Message, tc.text) {
			t.Errorf("%s: %+v", tc.reason, got)
		}
	}
}
