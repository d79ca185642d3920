package acmeserver_test

import (
	"testing"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmeserver"
	"github.com/certplane/certplane/internal/acme/acmeserver/attempts"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// A controller in the same process tries a challenge while the client waits, and the
// order is stored with what came of it. What takes longer, and what nobody in the
// process can try, is stored as a wish.
func TestAttemptsAtOnce(t *testing.T) {
	w := newWorld(t)
	desk := &attempts.Desk{}
	w.serve("", func(cfg *acmeserver.Config) { cfg.Attempts = desk })
	c := w.registered(1)
	tried := make(chan *attempts.Attempt, 1)
	var stored []*v1alpha1.AcmeOrder
	outcome := func(problem *rfc8555.Problem, at acmeorder.Position) attempts.Outcome {
		return attempts.Outcome{
			Record: func(o *v1alpha1.AcmeOrder) *v1alpha1.AcmeOrderStatus {
				return acmeorder.RecordAttempt(o, at, acmeorder.Attempt{Problem: problem, Final: true}, &w.endpoint.Spec, time.Now())
			},
			Stored: func(o *v1alpha1.AcmeOrder) { stored = append(stored, o) },
		}
	}
	tests := []struct {
		name             string
		try              attempts.Try
		challenge, order string
		outcomes         int
	}{
		{"a proof", func(_ *v1alpha1.AcmeOrder, at acmeorder.Position) *attempts.Attempt {
			a := attempts.NewAttempt()
			a.End(outcome(nil, at))
			return a
		}, "valid", "ready", 1},
		{"a failure for good", func(_ *v1alpha1.AcmeOrder, at acmeorder.Position) *attempts.Attempt {
			a := attempts.NewAttempt()
			a.End(outcome(rfc8555.NewProblem(403, rfc8555.ProblemUnauthorized, "another content"), at))
			return a
		}, "invalid", "invalid", 1},
		{"a slow host", func(*v1alpha1.AcmeOrder, acmeorder.Position) *attempts.Attempt {
			a := attempts.NewAttempt()
			tried <- a
			return a
		}, "processing", "pending", 0},
		{"tried already", func(*v1alpha1.AcmeOrder, acmeorder.Position) *attempts.Attempt { return nil }, "processing", "pending", 0},
		{"a controller elsewhere", nil, "processing", "pending", 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			stored = nil
			end := desk.Offer(tc.try)
			defer end()
			url, order := c.order("a.corp.example")
			authz := order["authorizations"].([]any)[0].(string)
			challenge := c.post(authz, nil).json(t)["challenges"].([]any)[0].(map[string]any)["url"].(string)
			if r := c.post(challenge, map[string]any{}); r.code != 200 || r.json(t)["status"] != tc.challenge {
				t.Errorf("the challenge: %d %s", r.code, r.body)
			}
			if r := c.post(url, nil); r.json(t)["status"] != tc.order {
				t.Errorf("the order: %s", r.body)
			}
			if len(stored) != tc.outcomes || tc.outcomes > 0 && stored[0] == nil {
				t.Errorf("%d outcomes were stored: %v", len(stored), stored)
			}
			// The next case needs an order of its own.
			if r := c.post(authz, map[string]any{"status": "deactivated"}); r.code != 200 {
				t.Errorf("giving it up: %d %s", r.code, r.body)
			}
		})
	}
	if (<-tried).End(attempts.Outcome{}) {
		t.Error("somebody still waits for the slow host")
	}
}
