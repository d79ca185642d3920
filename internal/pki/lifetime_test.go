package pki_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/pki"
)

const day = 24 * time.Hour

// now is when the tests happen.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestDuration(t *testing.T) {
	tests := []struct {
		reason    string
		limit     time.Duration
		requested *time.Duration
		want      time.Duration
	}{
		{reason: "nothing asked: the maximum", limit: 7 * day, want: 7 * day},
		{reason: "shorter than the maximum", limit: 7 * day, requested: ptr(6 * day), want: 6 * day},
		{reason: "longer than the maximum", limit: 7 * day, requested: ptr(8 * day), want: 7 * day},
		{reason: "equal to the maximum", limit: 7 * day, requested: ptr(7 * day), want: 7 * day},
		{reason: "negative", limit: 7 * day, requested: ptr(-7 * day), want: 10 * time.Minute},
		{reason: "a second under the minimum", limit: 7 * day, requested: ptr(10*time.Minute - time.Second), want: 10 * time.Minute},
		{reason: "the minimum", limit: 7 * day, requested: ptr(10 * time.Minute), want: 10 * time.Minute},
		{reason: "the maximum wins over the minimum", limit: time.Minute, requested: ptr(9 * time.Minute), want: time.Minute},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			rule := pki.Lifetime{Max: tc.limit, Min: 10 * time.Minute}
			if got := rule.Duration(tc.requested); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestValidity(t *testing.T) {
	kubernetes := pki.Lifetime{Max: 24 * time.Hour, Min: 10 * time.Minute, Backdate: 5 * time.Minute, Short: 8 * time.Hour}
	wide := pki.Validity{NotBefore: now.Add(-day), NotAfter: now.Add(30 * day)}
	tests := []struct {
		reason     string
		rule       pki.Lifetime
		requested  *time.Duration
		ca         pki.Validity
		now        time.Time
		start, end time.Duration // from now
	}{
		{reason: "nothing asked: the maximum, backdate included", start: -5 * time.Minute, end: 24*time.Hour - 5*time.Minute},
		{reason: "20h", requested: ptr(20 * time.Hour), start: -5 * time.Minute, end: 20*time.Hour - 5*time.Minute},
		{reason: "8h is long", requested: ptr(8 * time.Hour), start: -5 * time.Minute, end: 8*time.Hour - 5*time.Minute},
		{reason: "just under 8h is short", requested: ptr(8*time.Hour - time.Second), start: -5 * time.Minute, end: 8*time.Hour - time.Second},
		{reason: "2h comes on top of the backdate", requested: ptr(2 * time.Hour), start: -5 * time.Minute, end: 2 * time.Hour},
		{reason: "10m", requested: ptr(10 * time.Minute), start: -5 * time.Minute, end: 10 * time.Minute},
		{reason: "no backdate", rule: pki.Lifetime{Max: time.Hour}, end: time.Hour},
		{
			reason: "backdate without short: it is part of the duration",
			rule:   pki.Lifetime{Max: time.Hour, Backdate: 5 * time.Minute},
			start:  -5 * time.Minute, end: 55 * time.Minute,
		},
		{
			reason: "a duration within the backdate is over before it begins",
			rule:   pki.Lifetime{Max: time.Minute, Backdate: 5 * time.Minute},
			start:  -5 * time.Minute, end: -4 * time.Minute,
		},
		{
			reason: "the same with short: all of it lies ahead",
			rule:   pki.Lifetime{Max: time.Minute, Backdate: 5 * time.Minute, Short: 8 * time.Hour},
			start:  -5 * time.Minute, end: time.Minute,
		},
		{
			reason: "cut at the CA's end",
			ca:     pki.Validity{NotBefore: now.Add(-day), NotAfter: now.Add(time.Hour)},
			start:  -5 * time.Minute, end: time.Hour,
		},
		{
			reason: "ends with the CA to the second",
			ca:     pki.Validity{NotBefore: now.Add(-day), NotAfter: now.Add(24*time.Hour - 5*time.Minute)},
			start:  -5 * time.Minute, end: 24*time.Hour - 5*time.Minute,
		},
		{
			reason: "never older than the CA",
			ca:     pki.Validity{NotBefore: now.Add(-time.Minute), NotAfter: now.Add(30 * day)},
			start:  -time.Minute, end: 24*time.Hour - 5*time.Minute,
		},
		{
			reason: "whole seconds",
			now:    now.Add(700 * time.Millisecond),
			start:  -5 * time.Minute, end: 24*time.Hour - 5*time.Minute,
		},
		{
			reason: "UTC",
			now:    now.In(time.FixedZone("elsewhere", 3600)),
			start:  -5 * time.Minute, end: 24*time.Hour - 5*time.Minute,
		},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			rule, ca, at := orElse(tc.rule, kubernetes), orElse(tc.ca, wide), orElse(tc.now, now)
			got, err := rule.Validity(tc.requested, ca, at)
			if err != nil {
				t.Fatal(err)
			}
			want := pki.Validity{NotBefore: now.Add(tc.start), NotAfter: now.Add(tc.end)}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got.NotAfter.Location() != time.UTC || got.NotAfter.Nanosecond() != 0 {
				t.Errorf("%v is not in whole seconds of UTC", got.NotAfter)
			}
		})
	}
}

func TestValidityOutsideOfCA(t *testing.T) {
	kubernetes := pki.Lifetime{Max: 24 * time.Hour, Min: 10 * time.Minute, Backdate: 5 * time.Minute, Short: 8 * time.Hour}
	at := func(d time.Duration) string { return now.Add(d).String() }
	tests := []struct {
		reason     string
		rule       pki.Lifetime
		start, end time.Duration // of the CA, from now
		expired    bool
		want       string
	}{
		{reason: "long over", start: -day, end: -time.Hour, expired: true, want: "the signer has expired: NotAfter=" + at(-time.Hour)},
		{reason: "over since the backdate", start: -day, end: -5 * time.Minute, expired: true, want: "the signer has expired: NotAfter=" + at(-5*time.Minute)},
		{reason: "over for less than the backdate", start: -day, end: -4 * time.Minute, expired: true,
			want: "refusing to sign a certificate that expired in the past: NotAfter=" + at(-4*time.Minute)},
		{reason: "ends now", start: -day, end: 0, expired: true,
			want: "refusing to sign a certificate that expired in the past: NotAfter=" + at(0)},
		{reason: "ends now, without backdate", rule: pki.Lifetime{Max: time.Hour}, start: -day, end: 0, expired: true,
			want: "the signer has expired: NotAfter=" + at(0)},
		{reason: "begins later", start: time.Second, end: day, want: "the signer is not yet valid: NotBefore=" + at(time.Second)},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			ca := pki.Validity{NotBefore: now.Add(tc.start), NotAfter: now.Add(tc.end)}
			_, err := orElse(tc.rule, kubernetes).Validity(nil, ca, now)
			if text(err) != tc.want {
				t.Errorf("error %q, want %q", text(err), tc.want)
			}
			var expired *pki.ExpiredError
			var early *pki.NotYetValidError
			if errors.As(err, &expired) != tc.expired || errors.As(err, &early) == tc.expired {
				t.Errorf("error is a %T", err)
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }

func orElse[T comparable](v, otherwise T) T {
	if v == *new(T) {
		return otherwise
	}
	return v
}
