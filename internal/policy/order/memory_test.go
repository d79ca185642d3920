package order_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"

	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/order"
)

func problem(status int, kind string) *rfc8555.Problem {
	p := &rfc8555.Problem{Status: status, Detail: "detail"}
	if kind != "" {
		p.Type = rfc8555.Namespace + kind
	}
	return p
}

func TestJudge(t *testing.T) {
	later := problem(503, "")
	later.RetryAfter = now.Add(time.Minute)
	tests := []struct {
		reason  string
		problem *rfc8555.Problem
		want    order.Verdict
	}{
		{"badNonce", problem(400, "badNonce"), order.Retry},
		{"rateLimited", problem(429, "rateLimited"), order.Wait},
		{"rateLimited with another code", problem(403, "rateLimited"), order.Wait},
		{"429 of a proxy", problem(429, ""), order.Wait},
		{"serverInternal", problem(500, "serverInternal"), order.Retry},
		{"any 5xx", problem(502, ""), order.Retry},
		{"503", problem(503, ""), order.Retry},
		{"503 with Retry-After", later, order.Wait},
		{"orderNotReady", problem(403, "orderNotReady"), order.Reread},
		{"malformed", problem(400, "malformed"), order.Permanent},
		{"malformed, of an object that is not there", problem(404, "malformed"), order.Gone},
		{"gone", problem(410, ""), order.Gone},
		{"rejectedIdentifier", problem(400, "rejectedIdentifier"), order.Permanent},
		{"unsupportedIdentifier", problem(400, "unsupportedIdentifier"), order.Permanent},
		{"caa", problem(403, "caa"), order.Permanent},
		{"badCSR", problem(400, "badCSR"), order.Permanent},
		{"badPublicKey", problem(400, "badPublicKey"), order.Permanent},
		{"invalidProfile", problem(400, "invalidProfile"), order.Permanent},
		{"unauthorized", problem(403, "unauthorized"), order.IssuersFault},
		{"accountDoesNotExist", problem(400, "accountDoesNotExist"), order.IssuersFault},
		{"externalAccountRequired", problem(403, "externalAccountRequired"), order.IssuersFault},
		{"userActionRequired", problem(403, "userActionRequired"), order.IssuersFault},
		{"alreadyReplaced", problem(409, "alreadyReplaced"), order.Permanent},
		{"compound", problem(400, "compound"), order.Permanent},
		{"a type of the future", problem(400, "tooQuantum"), order.Permanent},
		{"a page of a proxy", problem(403, ""), order.Retry},
		{"a time-out", problem(408, ""), order.Retry},
	}
	for _, tc := range tests {
		if got := order.Judge(tc.problem); got != tc.want {
			t.Errorf("%s: %v, not %v", tc.reason, got, tc.want)
		}
	}
}

func TestWaitUntil(t *testing.T) {
	said := func(after time.Duration) *rfc8555.Problem {
		p := problem(429, "rateLimited")
		p.RetryAfter = now.Add(after)
		return p
	}
	for reason, tc := range map[string]struct {
		problem *rfc8555.Problem
		want    time.Duration
	}{
		"as told": {said(90 * time.Second), 90 * time.Second}, "too far away": {said(1e5 * time.Hour), 7 * 24 * time.Hour}, "not told": {problem(429, "rateLimited"), time.Hour},
	} {
		if got := order.WaitUntil(tc.problem, now).Sub(now); got != tc.want {
			t.Errorf("%s: %v", reason, got)
		}
	}
}

// Failures in a row are answered with ever longer waits, also if other requests
// succeed in between.
func TestFailed(t *testing.T) {
	var m order.Memory
	refused := order.Fault{Err: errors.New("x"), Problem: problem(500, "")}
	for _, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
		step := m.Failed(order.Finalize, refused, true, now)
		if step.Action != order.Await || !step.Again.Equal(now.Add(want)) || m.Order != nil || step.Reason == "" {
			t.Errorf("%+v", step)
		}
		m.Answered(rfc8555.Order{Status: "ready"}, now)
	}
	m.Answered(rfc8555.Order{Status: "processing"}, now)
	if step := m.Failed(order.Read, refused, true, now); !step.Again.Equal(now.Add(5 * time.Second)) {
		t.Errorf("%+v", step)
	}
	m = order.Memory{Faults: 9}
	blamed := order.Fault{Err: errors.New("x"), Problem: problem(403, "unauthorized")}
	for i := 1; i <= 5; i++ { // what else has failed before does not count, nor what succeeds in between
		m.Answered(rfc8555.Order{Status: "ready"}, now)
		if step := m.Failed(order.Finalize, blamed, true, now); (step.Action == order.End) != (i == 5) || step.Action == order.Await && !m.Recheck {
			t.Errorf("%d: %+v", i, step)
		}
		m.Succeeded()
	}
	step := m.Failed(order.Create, order.Fault{Err: errors.New("x"), Until: now.Add(90 * time.Second), Limit: "new orders", Detail: "too many"}, true, now)
	if step.Class != order.WaitsLimit || step.Reason != "waiting until 2026-03-01T12:02:00Z because the CA limits new orders: too many" || !step.Again.Equal(now.Add(90*time.Second)) {
		t.Errorf("%+v", step)
	}
	huge := problem(400, "malformed")
	huge.Detail = strings.Repeat("x", 1e6)
	if step := m.Failed(order.Create, order.Fault{Err: huge, Problem: huge}, true, now); step.Action != order.End || len(step.Reason) > 5000 {
		t.Errorf("%d characters", len(step.Reason))
	}
}

// Explanations know the next step without asking the CA.
func TestAssumed(t *testing.T) {
	for state, want := range map[acmev1.State]order.Action{"": order.Plan, "pending": order.Plan, "ready": order.Finalize, "processing": order.Read, "valid": order.Download, "errored": order.None} {
		s := situation()
		s.Order.Status.State = state
		s.Memory = order.Assumed(s.Order)
		if got := order.Next(s); got.Action != want {
			t.Errorf("%q: %+v", state, got)
		}
	}
	if got := order.Assumed(&acmev1.Order{}); got.Order != nil {
		t.Errorf("%+v", got)
	}
}

// The CA is asked after 1, 2, 4, 8 and then every 15 seconds, or when it says so.
func TestAnswered(t *testing.T) {
	var m order.Memory
	for _, want := range []time.Duration{0, 1, 2, 4, 8, 15, 15} {
		m.Answered(rfc8555.Order{Status: "processing"}, now)
		if got := m.NotBefore; want == 0 && !got.IsZero() || want > 0 && !got.Equal(now.Add(want*time.Second)) {
			t.Errorf("again at %v, not after %d s", got, want)
		}
	}
	m.Answered(rfc8555.Order{Status: "processing", RetryAfter: now.Add(time.Minute)}, now)
	if !m.NotBefore.Equal(now.Add(time.Minute)) {
		t.Errorf("again at %v", m.NotBefore)
	}
	m.Answered(rfc8555.Order{Status: "valid", RetryAfter: now.Add(time.Minute)}, now)
	if !m.NotBefore.IsZero() {
		t.Errorf("again at %v", m.NotBefore)
	}
}
