package sign

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	certificatesv1 "k8s.io/api/certificates/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/policy/request"
)

// delegated runs the reconciler of an external signer, which returns err, on a
// request for example.com/signer.
func delegated(t *testing.T, err error) (*fixture, *reconciler, reconcile.Result) {
	t.Helper()
	c := approved(t)
	c.Spec.SignerName = "example.com/signer"
	f := newFixture(t, c)
	r, newErr := newReconciler(f.cache, Config{
		SignerName: "example.com/*",
		Selects:    func(name string) bool { return strings.HasPrefix(name, "example.com/") },
		Sign: func(_ context.Context, req request.Request, _ signer.Permission, _ time.Time) (*signer.Issued, error) {
			if req.SignerName != "example.com/signer" || req.Name != "alice" || req.UID != string(c.UID) {
				t.Errorf("the signer is asked %+v", req)
			}
			return nil, err
		},
		Client: f.api, Clock: clocktesting.NewFakePassiveClock(now), Events: f.events, Metrics: f.registry,
	})
	if newErr != nil {
		t.Fatal(newErr)
	}
	result, reconcileErr := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "alice"}})
	if reconcileErr != nil {
		t.Fatal(reconcileErr)
	}
	return f, r, result
}

// An external signer says when to retry. Its Events contain more than
// requesters get to see in the condition.
func TestDelegateDelays(t *testing.T) {
	pending := &signer.PendingError{
		Reason: "SignerUnavailable", Message: "wait", Note: "wait (it is down)", Err: errors.New("it is down"), RetryAfter: 7 * time.Second,
	}
	f, r, first := delegated(t, pending)
	again, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "alice"}})
	if err != nil || first.RequeueAfter != 7*time.Second || again.RequeueAfter != 7*time.Second {
		t.Errorf("asked again after %v and then %v, want 7s; error %v", first.RequeueAfter, again.RequeueAfter, err)
	}
	if got := certificates.Condition(f.get(), certificates.ConditionDelayed); got == nil || got.Message != "wait" {
		t.Errorf("condition is %+v", got)
	}
	if got := f.eventText(); got != "Warning SignerUnavailable wait (it is down)\n" {
		t.Errorf("events are %q", got)
	}
}

// Reasons that an external signer makes up are shown to requesters, but not
// used as labels of metrics.
func TestDelegateRefuses(t *testing.T) {
	f, r, _ := delegated(t, signer.Permanent("NotInInventory", errors.New("no such host")))
	if got := certificates.Condition(f.get(), certificatesv1.CertificateFailed); got == nil || got.Reason != "NotInInventory" || got.Message != "no such host" {
		t.Errorf("condition is %+v", got)
	}
	if got := testutil.ToFloat64(r.metrics.Refused.WithLabelValues("example.com/*", "Other")); got != 1 {
		t.Errorf("%v requests counted as refused for other reasons, want 1", got)
	}
}
