package issuance_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/issuance"
)

// begin is when the second issuance of the tests begins.
var begin = now.Add(60 * hour)

func denied(at time.Time) func(*world, *cmv1.CertificateRequest) {
	return func(_ *world, cr *cmv1.CertificateRequest) {
		condition(cr, cmv1.CertificateRequestConditionDenied, "True", "Policy", at)
	}
}

func invalid(at time.Time) func(*world, *cmv1.CertificateRequest) {
	return func(_ *world, cr *cmv1.CertificateRequest) {
		condition(cr, cmv1.CertificateRequestConditionInvalidRequest, "True", "TooWild", at)
	}
}

func failedAt(at time.Time) func(*world, *cmv1.CertificateRequest) {
	return func(_ *world, cr *cmv1.CertificateRequest) {
		condition(cr, cmv1.CertificateRequestConditionReady, "False", "Failed", at)
	}
}

func answered(at time.Time) func(*world, *cmv1.CertificateRequest) {
	return func(w *world, cr *cmv1.CertificateRequest) { w.answer(cr, at) }
}

func pending(w *world, cr *cmv1.CertificateRequest) {
	condition(cr, cmv1.CertificateRequestConditionReady, "False", "Pending", begin)
}

func temporary(w *world, _ *cmv1.CertificateRequest) {
	w.crt.Annotations = map[string]string{cmv1.IssueTemporaryCertificateAnnotation: "true"}
}

// earlier has the request made with the same key, in another attempt.
func earlier(_ *world, cr *cmv1.CertificateRequest) {
	cr.Annotations[cmv1.CertificateRequestPrivateKeyAnnotationKey] = "web-xyz"
}

type change = func(*world, *cmv1.CertificateRequest)

// TestIssue has what becomes of an issuance and of its request, which have to
// agree: a request that the one waits to see deleted is deleted by the other.
func TestIssue(t *testing.T) {
	later, before := begin.Add(time.Minute), begin.Add(-time.Minute)
	tests := []struct {
		reason  string
		changes []change
		at      time.Duration // after begin
		step    issuance.Step
		why     string // reason and message, in part
		deletes bool   // the request
	}{
		{reason: "not answered yet", why: "waits for approval"},
		{reason: "pending", changes: []change{pending}, why: "waits for its issuer: because"},
		{reason: "answered", changes: []change{answered(later)}, step: issuance.Store},
		{reason: "denied", changes: []change{denied(later)}, step: issuance.Fail, why: "Policy The certificate request has failed to complete and will be retried: because"},
		{reason: "denied, and answered all the same", changes: []change{answered(later), denied(later)}, step: issuance.Fail, why: "Policy"},
		{reason: "denied before this issuance", changes: []change{denied(before)}, why: "failed before this issuance began", deletes: true},
		{reason: "denied and invalid", changes: []change{invalid(later), denied(later)}, step: issuance.Fail, why: "Policy"},
		{reason: "invalid", changes: []change{invalid(later)}, step: issuance.Fail, why: "TooWild"},
		{reason: "invalid and failed", changes: []change{failedAt(later), invalid(later)}, step: issuance.Fail, why: "TooWild"},
		{reason: "failed", changes: []change{failedAt(later)}, step: issuance.Fail, why: "Failed The certificate request"},
		{reason: "failed before this issuance", changes: []change{failedAt(before)}, why: "failed before this issuance began", deletes: true},
		{
			reason:  "failed before this issuance, as its failureTime says",
			changes: []change{failedAt(later), func(_ *world, cr *cmv1.CertificateRequest) { cr.Status.FailureTime = ptr.To(metav1.NewTime(before)) }},
			why:     "failed before", deletes: true,
		},
		{reason: "failed in the moment in which it began", changes: []change{failedAt(begin)}, step: issuance.Fail, why: "Failed"},
		{reason: "denied in an earlier attempt, a moment ago", changes: []change{denied(begin), earlier}, why: "to an earlier issuance", deletes: true},
		{reason: "denied in an earlier attempt, and answered", changes: []change{answered(begin), denied(begin), earlier}, why: "to an earlier issuance", deletes: true},
		{reason: "waits since an earlier attempt", changes: []change{pending, earlier}, why: "to an earlier issuance", deletes: true},
		{reason: "answered in an earlier attempt", changes: []change{answered(begin), earlier}, step: issuance.Store},
		{reason: "answered with nonsense", changes: []change{answered(later), func(_ *world, cr *cmv1.CertificateRequest) { cr.Status.Certificate = []byte("?") }}, step: issuance.Fail, why: "InvalidCertificate"},
		{reason: "answered with a chain that was cut", changes: []change{answered(later), func(_ *world, cr *cmv1.CertificateRequest) {
			cr.Status.Certificate = append(cr.Status.Certificate, cr.Status.Certificate[:200]...)
		}}, step: issuance.Fail, why: "InvalidCertificate"},
		{reason: "answered with a CA that was cut", changes: []change{answered(later), func(_ *world, cr *cmv1.CertificateRequest) {
			cr.Status.CA = cr.Status.Certificate[:200]
		}}, step: issuance.Fail, why: "InvalidCertificate"},
		{reason: "answered for another key", changes: []change{answered(later), func(w *world, cr *cmv1.CertificateRequest) { cr.Status.Certificate = w.requests[0].Status.Certificate }}, step: issuance.Fail, why: "InvalidCertificate"},
		{reason: "answered too late", changes: []change{answered(later)}, at: 2 * life, step: issuance.Fail, why: "InvalidCertificate"},
		{reason: "the Certificate has changed", changes: []change{answered(later), func(w *world, _ *cmv1.CertificateRequest) { rename(w) }}, why: "[spec.dnsNames]", deletes: true},
		{reason: "nobody can read it", changes: []change{func(_ *world, cr *cmv1.CertificateRequest) { cr.Spec.Request = []byte("?") }}, why: "reading spec.request", deletes: true},
		{reason: "no request", changes: []change{func(w *world, _ *cmv1.CertificateRequest) { w.requests = nil }}, why: "does not exist yet"},
		{reason: "two requests", changes: []change{answered(later), func(w *world, cr *cmv1.CertificateRequest) { w.requests = append(w.requests, named(cr, "web-9")) }}, why: "2 CertificateRequests exist"},
		{reason: "no key", changes: []change{func(w *world, _ *cmv1.CertificateRequest) { w.crt.Status.NextPrivateKeySecretName = nil }}, why: "the private key for the next certificate"},
		{reason: "being deleted", changes: []change{answered(later), func(w *world, _ *cmv1.CertificateRequest) { deleted(w) }}, why: "no certificate is being issued"},
		{reason: "the Secret belongs to somebody else", changes: []change{answered(later), func(w *world, _ *cmv1.CertificateRequest) { w.owner = newCertificate("api") }}, why: `belongs to Certificate "api"`},
		{reason: "over", changes: []change{answered(later), func(w *world, _ *cmv1.CertificateRequest) { issuance.SetIssued(w.crt) }}, why: "no certificate is being issued"},

		{reason: "temporary, but there is a certificate", changes: []change{temporary, pending}, why: "waits for its issuer"},
		{reason: "temporary", changes: []change{temporary, pending, func(w *world, _ *cmv1.CertificateRequest) { w.secret = nil }}, step: issuance.StoreTemporary},
		{reason: "temporary, but not approved yet", changes: []change{temporary, func(w *world, _ *cmv1.CertificateRequest) { w.secret = nil }}, why: "waits for approval"},
		{reason: "nobody wants a temporary one", changes: []change{pending, func(w *world, _ *cmv1.CertificateRequest) { w.secret = nil }}, why: "waits for its issuer"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			key, cr := w.next(begin)
			for _, change := range tc.changes {
				change(w, cr)
			}
			got := issuance.Issue(w.situation(), key, begin.Add(tc.at))
			if text := strings.TrimSpace(got.Why.Reason + " " + got.Why.Message); got.Step != tc.step || !strings.Contains(text, tc.why) {
				t.Errorf("step %v because %q, want %v %q", got.Step, text, tc.step, tc.why)
			}
			if got.Step != issuance.Wait && got.Request != cr {
				t.Error("decided by no request")
			}
			plan := issuance.PlanRequest(w.situation(), key.Public())
			if deletes := slices.ContainsFunc(plan.Delete, func(d issuance.StaleRequest) bool { return d.Request == cr }); deletes != tc.deletes {
				t.Errorf("the request is deleted: %v, want %v", deletes, tc.deletes)
			}
		})
	}
}

// The outcome says what a request waits for once that takes some time.
func TestIssueTells(t *testing.T) {
	approved := func(_ *world, cr *cmv1.CertificateRequest) {
		condition(cr, cmv1.CertificateRequestConditionApproved, "True", "Policy", begin)
	}
	tests := []struct {
		reason  string
		changes []change
		after   time.Duration
		tells   string // empty: nothing
		again   time.Duration
	}{
		{reason: "not approved, just made", after: 9 * time.Second, again: 10 * time.Second},
		{reason: "never approved", after: 10 * time.Second, tells: `CertificateRequest "web-2" waits for approval: approve or deny it, or check that its approver is running and has the verb approve for Issuer.cert-manager.io/ca`},
		{reason: "just approved", changes: []change{approved}, again: 10 * time.Second},
		{reason: "nobody signs", changes: []change{approved}, after: time.Hour, tells: `CertificateRequest "web-2" is approved, but has not been processed: check that the controller of Issuer.cert-manager.io/ca is running`},
		{reason: "its issuer says why", changes: []change{approved, pending}, tells: `CertificateRequest "web-2" waits for its issuer: because`},
		{reason: "its issuer does not say why", changes: []change{pending, func(_ *world, cr *cmv1.CertificateRequest) { cr.Status.Conditions[0].Message = "" }}, tells: `waits for its issuer: Pending`},
		{reason: "it is answered", changes: []change{answered(begin)}, after: time.Hour},
		{reason: "it is denied", changes: []change{denied(begin)}, after: time.Hour},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			key, cr := w.next(begin)
			cr.CreationTimestamp = metav1.NewTime(begin)
			for _, change := range tc.changes {
				change(w, cr)
			}
			got := issuance.Issue(w.situation(), key, begin.Add(tc.after))
			if got.Report != (tc.tells != "") || got.Report && !strings.Contains(got.Why.Message, tc.tells) {
				t.Errorf("tells %v, %q, want %q", got.Report, got.Why.Message, tc.tells)
			}
			if got.Again.IsZero() != (tc.again == 0) || tc.again != 0 && !got.Again.Equal(begin.Add(tc.again)) {
				t.Errorf("again %v, want after %v", got.Again, tc.again)
			}
			issuance.SetWaiting(w.crt, got.Why.Message)
			if c := certmanager.CertificateCondition(w.crt, cmv1.CertificateConditionIssuing); c.Reason != "Test" || c.Message != got.Why.Message || !c.LastTransitionTime.Time.Equal(begin) {
				t.Errorf("condition %+v", c)
			}
		})
	}
}

func TestSetFailedAndIssued(t *testing.T) {
	w := newWorld(t)
	w.next(begin)
	why := issuance.Finding{Reason: "Failed", Message: "because"}
	backoff.SetFailed(w.crt, why, begin)
	backoff.SetFailed(w.crt, why, begin.Add(hour))
	got := certmanager.CertificateCondition(w.crt, cmv1.CertificateConditionIssuing)
	if got.Status != "False" || got.Reason != "Failed" || got.Message != `because (next attempt after 2h0m0s, or at once with "certplane renew" or a change of the spec)` || *w.crt.Status.FailedIssuanceAttempts != 2 || w.crt.Status.NextPrivateKeySecretName != nil || !w.crt.Status.LastFailureTime.Time.Equal(begin.Add(hour)) {
		t.Errorf("condition %+v, status %+v", got, w.crt.Status)
	}
	issuance.SetIssued(w.crt)
	if w.crt.Status.FailedIssuanceAttempts != nil || w.crt.Status.LastFailureTime != nil || *w.crt.Status.Revision != 2 || certmanager.CertificateCondition(w.crt, cmv1.CertificateConditionIssuing) != nil {
		t.Errorf("status %+v", w.crt.Status)
	}
}
