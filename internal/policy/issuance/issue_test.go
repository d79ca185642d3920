package issuance_test

import (
	"crypto"
	"slices"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/policy/issuance/secret"
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
		{reason: "not answered yet", why: "has not been answered yet"},
		{reason: "pending", changes: []change{pending}, why: "has not been answered yet"},
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
		{reason: "answered with nonsense", changes: []change{answered(later), func(_ *world, cr *cmv1.CertificateRequest) { cr.Status.Certificate = []byte("?") }}, step: issuance.Fail, why: "InvalidCertificate"},
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

		{reason: "temporary, but there is a certificate", changes: []change{temporary, pending}, why: "has not been answered"},
		{reason: "temporary", changes: []change{temporary, pending, func(w *world, _ *cmv1.CertificateRequest) { w.secret = nil }}, step: issuance.StoreTemporary},
		{reason: "temporary, but not approved yet", changes: []change{temporary, func(w *world, _ *cmv1.CertificateRequest) { w.secret = nil }}, why: "has not been answered"},
		{reason: "nobody wants a temporary one", changes: []change{pending, func(w *world, _ *cmv1.CertificateRequest) { w.secret = nil }}, why: "has not been answered"},
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
			if deletes := slices.ContainsFunc(plan.Delete, func(d issuance.Doomed) bool { return d.Request == cr }); deletes != tc.deletes {
				t.Errorf("the request is deleted: %v, want %v", deletes, tc.deletes)
			}
		})
	}
}

func TestPlanRequest(t *testing.T) {
	tests := []struct {
		reason string
		change func(w *world, key crypto.Signer, cr *cmv1.CertificateRequest)
		delete []string
		keep   string
		create bool
	}{
		{reason: "the usual", keep: "web-2"},
		{reason: "none", change: func(w *world, _ crypto.Signer, _ *cmv1.CertificateRequest) { w.requests = w.requests[:1] }, create: true},
		{
			reason: "no revision", delete: []string{"web-2"}, create: true,
			change: func(_ *world, _ crypto.Signer, cr *cmv1.CertificateRequest) {
				delete(cr.Annotations, cmv1.CertificateRequestRevisionAnnotationKey)
			},
		},
		{
			reason: "a revision that is none", delete: []string{"web-2"}, create: true,
			change: func(_ *world, _ crypto.Signer, cr *cmv1.CertificateRequest) { revision(cr, 0) },
		},
		{reason: "a revision long past", change: func(w *world, _ crypto.Signer, _ *cmv1.CertificateRequest) { w.crt.Status.Revision = ptr.To(7) }, create: true},
		{
			reason: "another key", delete: []string{"web-2"}, create: true,
			change: func(w *world, _ crypto.Signer, cr *cmv1.CertificateRequest) {
				cr.Spec.Request = w.newRequest(newKey(w.t, pki.ECDSAP256)).Spec.Request
			},
		},
		{
			reason: "two that ask for the same", keep: "web-2", delete: []string{"web-0"},
			change: func(w *world, _ crypto.Signer, cr *cmv1.CertificateRequest) {
				w.requests = append(w.requests, named(cr, "web-0"))
			},
		},
		{
			reason: "two, of which the other one is answered", keep: "web-9", delete: []string{"web-2"},
			change: func(w *world, _ crypto.Signer, cr *cmv1.CertificateRequest) {
				other := named(cr, "web-9")
				w.answer(other, begin)
				w.requests = append(w.requests, other)
			},
		},
		{
			reason: "somebody else's", create: true,
			change: func(_ *world, _ crypto.Signer, cr *cmv1.CertificateRequest) { cr.OwnerReferences = nil },
		},
		{reason: "being deleted", change: func(w *world, _ crypto.Signer, _ *cmv1.CertificateRequest) { deleted(w); w.requests = nil }},
		{reason: "over", change: func(w *world, _ crypto.Signer, _ *cmv1.CertificateRequest) { issuance.SetIssued(w.crt) }},
		{reason: "somebody else's Secret", change: func(w *world, _ crypto.Signer, _ *cmv1.CertificateRequest) {
			w.owner, w.requests = newCertificate("api"), nil
		}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			key, cr := w.next(begin)
			if tc.change != nil {
				tc.change(w, key, cr)
			}
			plan := issuance.PlanRequest(w.situation(), key.Public())
			var doomed []string
			for _, d := range plan.Delete {
				doomed = append(doomed, d.Request.Name)
			}
			keep := ""
			if plan.Keep != nil {
				keep = plan.Keep.Name
			}
			if !slices.Equal(doomed, tc.delete) || keep != tc.keep || plan.Create != tc.create {
				t.Errorf("deletes %q, keeps %q, creates %v; want %q, %q, %v", doomed, keep, plan.Create, tc.delete, tc.keep, tc.create)
			}
		})
	}
}

func named(cr *cmv1.CertificateRequest, name string) *cmv1.CertificateRequest {
	other := cr.DeepCopy()
	other.Name = name
	return other
}

func TestNewRequest(t *testing.T) {
	crt := newCertificate("web")
	crt.Labels = map[string]string{"team": "shop"}
	crt.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}", "example.com/a": "b", cmv1.CertificateNameKey: "forged"}
	crt.Status.NextPrivateKeySecretName = ptr.To("web-abc")
	cr, err := issuance.NewRequest(crt, newKey(t, pki.ECDSAP256), issuance.CopiedAnnotations{"*", "-kubectl.kubernetes.io/"})
	if err != nil {
		t.Fatal(err)
	}
	want := metav1.ObjectMeta{
		Namespace: "ns", Name: "web-1", Labels: map[string]string{"team": "shop"},
		Annotations: map[string]string{
			"example.com/a":                           "b",
			"cert-manager.io/certificate-name":        "web",
			"cert-manager.io/certificate-revision":    "1",
			"cert-manager.io/private-key-secret-name": "web-abc",
		},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "cert-manager.io/v1", Kind: "Certificate", Name: "web", UID: "web-uid", Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
		}},
	}
	if diff := cmp.Diff(want, cr.ObjectMeta); diff != "" {
		t.Error(diff)
	}
	if cr.Spec.IssuerRef != crt.Spec.IssuerRef || cr.Spec.Usages != nil || cr.Spec.Duration != crt.Spec.Duration {
		t.Errorf("the spec has defaults: %+v", cr.Spec)
	}
}

func TestCopiedAnnotations(t *testing.T) {
	tests := []struct {
		prefixes issuance.CopiedAnnotations
		key      string
		want     bool
	}{
		{nil, "a/b", false},
		{issuance.CopiedAnnotations{"*"}, "a/b", true},
		{issuance.CopiedAnnotations{"-a/", "*"}, "a/b", false},
		{issuance.CopiedAnnotations{"*", "-a/", "a/b"}, "a/bc", true},
		{issuance.CopiedAnnotations{"*", "a/b", "-a/"}, "a/bc", false},
		{issuance.CopiedAnnotations{"a/"}, "a/b", true},
		{issuance.CopiedAnnotations{"a/"}, "b/a/", false},
	}
	for _, tc := range tests {
		crt := newCertificate("web")
		crt.Annotations = map[string]string{tc.key: "x"}
		cr, err := issuance.NewRequest(crt, newKey(t, pki.Ed25519), tc.prefixes)
		if err != nil {
			t.Fatal(err)
		}
		if _, got := cr.Annotations[tc.key]; got != tc.want {
			t.Errorf("%q copies %q: %v, want %v", tc.prefixes, tc.key, got, tc.want)
		}
	}
}

func TestRequestName(t *testing.T) {
	long := strings.Repeat("a", 234)
	tests := []struct{ reason, name, want string }{
		{"short", "web", "web-1"},
		{"as long as it can be", strings.Repeat("a", 233), strings.Repeat("a", 233) + "-1"},
	}
	for _, tc := range tests {
		if got := issuance.RequestName(newCertificate(tc.name)); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.reason, got, tc.want)
		}
	}
	got := issuance.RequestName(newCertificate(long))
	if len(got) != 235 || !strings.HasPrefix(got, long[:168]+"-") || !strings.HasSuffix(got, "-1") {
		t.Errorf("%q", got)
	}
	if got == issuance.RequestName(newCertificate(long+"a")) {
		t.Error("two Certificates share a name")
	}
	dotted := strings.Repeat("a", 167) + "." + strings.Repeat("b", 66)
	if got := issuance.RequestName(newCertificate(dotted)); strings.Contains(got, ".-") {
		t.Errorf("%q is no name", got)
	}
}

func TestSetFailedAndIssued(t *testing.T) {
	w := newWorld(t)
	w.next(begin)
	why := issuance.Finding{Reason: "Failed", Message: "because"}
	issuance.SetFailed(w.crt, why, begin)
	issuance.SetFailed(w.crt, why, begin.Add(hour))
	got := certmanager.CertificateCondition(w.crt, cmv1.CertificateConditionIssuing)
	if got.Status != "False" || got.Reason != "Failed" || got.Message != "because" || *w.crt.Status.FailedIssuanceAttempts != 2 || !w.crt.Status.LastFailureTime.Time.Equal(begin.Add(hour)) {
		t.Errorf("condition %+v, status %+v", got, w.crt.Status)
	}
	issuance.SetIssued(w.crt)
	if w.crt.Status.FailedIssuanceAttempts != nil || w.crt.Status.LastFailureTime != nil || *w.crt.Status.Revision != 2 || certmanager.CertificateCondition(w.crt, cmv1.CertificateConditionIssuing) != nil {
		t.Errorf("status %+v", w.crt.Status)
	}
}

func TestPlanKey(t *testing.T) {
	w := newWorld(t)
	waiting := func(name string, kind pki.KeyType, age time.Duration) *corev1.Secret {
		s, err := issuance.NextKeySecret(w.crt, newKey(t, kind))
		if err != nil {
			t.Fatal(err)
		}
		s.Name, s.CreationTimestamp = name, metav1.NewTime(now.Add(-age))
		return s
	}
	a, b, large := waiting("a", pki.ECDSAP256, 2*hour), waiting("b", pki.ECDSAP256, hour), waiting("large", pki.ECDSAP384, hour)
	broken := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "broken"}}
	tests := []struct {
		reason  string
		change  func(*cmv1.Certificate)
		secrets []*corev1.Secret
		target  *corev1.Secret
		delete  []string
		name    string
		does    string // generate, reuse or refuse
		event   string
	}{
		{reason: "nothing is issued", change: notIssuing, secrets: []*corev1.Secret{a, b}, delete: []string{"a", "b"}},
		{reason: "being deleted", change: func(c *cmv1.Certificate) { c.DeletionTimestamp = ptr.To(metav1.Now()) }, secrets: []*corev1.Secret{a}, delete: []string{"a"}},
		{reason: "a new one", target: w.secret, does: "generate", event: "Generated"},
		{reason: "there is one", secrets: []*corev1.Secret{a}, name: "a"},
		{reason: "there are two", secrets: []*corev1.Secret{b, a}, name: "a", delete: []string{"b"}},
		{reason: "there are two, and the status names one", change: names("b"), secrets: []*corev1.Secret{a, b}, name: "b", delete: []string{"a"}},
		{reason: "the status names one that is gone", change: names("gone"), does: "generate", event: "Generated"},
		{reason: "one of another size", secrets: []*corev1.Secret{large}, delete: []string{"large"}, event: "Deleted"},
		{reason: "a broken one", secrets: []*corev1.Secret{broken}, delete: []string{"broken"}, event: "Deleted"},
		{reason: "never, and nothing to keep", change: never, does: "generate", event: "Generated"},
		{reason: "never, and the Secret is empty", change: never, target: broken, does: "generate", event: "Generated"},
		{reason: "never", change: never, target: w.secret, does: "reuse", event: "Reused"},
		{reason: "never, and a broken key", change: never, target: &corev1.Secret{Data: map[string][]byte{"tls.key": []byte("?")}}, does: "generate", event: "DecodeFailed"},
		{reason: "never, and another size", change: func(c *cmv1.Certificate) { never(c); c.Spec.PrivateKey.Size = 384 }, target: w.secret, does: "refuse"},
		{reason: "never, and certificate is missing", change: never, target: onlyKey(w.secret), does: "reuse", event: "Reused"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			crt := w.crt.DeepCopy()
			issuance.SetIssuing(crt, issuance.Finding{Reason: "Test"}, now)
			if tc.change != nil {
				tc.change(crt)
			}
			plan := issuance.PlanKey(crt, tc.secrets, tc.target)
			does := map[bool]string{true: "generate"}[plan.Generate] + map[bool]string{true: "reuse"}[plan.Reuse != nil] + map[bool]string{true: "refuse"}[!plan.Refusal.None()]
			if !slices.Equal(plan.Delete, tc.delete) || ptr.Deref(plan.Name, "") != tc.name || does != tc.does || plan.Event.Reason != tc.event {
				t.Errorf("plan %+v, does %q", plan, does)
			}
			if plan.Reuse != nil && !pki.SameKey(plan.Reuse.Public(), w.key.Public()) {
				t.Error("reuses another key")
			}
		})
	}
}

func notIssuing(c *cmv1.Certificate) { c.Status.Conditions = nil }

func names(secret string) func(*cmv1.Certificate) {
	return func(c *cmv1.Certificate) { c.Status.NextPrivateKeySecretName = &secret }
}

func never(c *cmv1.Certificate) { c.Spec.PrivateKey.RotationPolicy = cmv1.RotationPolicyNever }

func onlyKey(s *corev1.Secret) *corev1.Secret {
	s = s.DeepCopy()
	s.Data[corev1.TLSCertKey] = nil
	return s
}

// With Never, a request that was denied is not found again by the next attempt.
func TestNeverForgetsDenials(t *testing.T) {
	w := newWorld(t)
	key, cr := w.next(begin)
	denied(begin)(w, cr)
	issuance.SetFailed(w.crt, issuance.Issue(w.situation(), key, begin).Why, begin)
	issuance.SetRenewing(w.crt, begin.Add(hour))
	plan := issuance.PlanRequest(w.situation(), key.Public())
	if len(plan.Delete) != 1 || plan.Delete[0].Request != cr || !plan.Create {
		t.Errorf("plan %+v", plan)
	}
}

func TestSurplus(t *testing.T) {
	tests := []struct {
		reason    string
		revisions []int
		current   int
		limit     *int32
		unready   bool
		want      []int
	}{
		{reason: "one", revisions: []int{1}, current: 1},
		{reason: "the last one stays", revisions: []int{3, 1, 2}, current: 3, want: []int{1, 2}},
		{reason: "by number, not by name", revisions: []int{9, 10}, current: 10, want: []int{9}},
		{reason: "the one to come does not count", revisions: []int{1, 2, 3}, current: 2, want: []int{1}},
		{reason: "three stay", revisions: []int{1, 2, 3, 4}, current: 4, limit: ptr.To[int32](3), want: []int{1}},
		{reason: "a limit that is none", revisions: []int{1, 2}, current: 2, limit: ptr.To[int32](0), want: []int{1}},
		{reason: "not ready", revisions: []int{1, 2}, current: 2, unready: true},
		{reason: "without a number", revisions: []int{0, 1}, current: 1},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			issuance.SetReadiness(w.crt, issuance.Ready(w.situation(), now), now)
			if tc.unready {
				issuance.SetReadiness(w.crt, issuance.Readiness{Problem: issuance.Finding{Reason: "Test"}}, now)
			}
			w.crt.Status.Revision, w.crt.Spec.RevisionHistoryLimit = &tc.current, tc.limit
			var own []*cmv1.CertificateRequest
			for _, n := range tc.revisions {
				cr := named(w.requests[0], "any")
				revision(cr, n)
				own = append(own, cr)
			}
			var got []int
			for _, cr := range issuance.Surplus(w.crt, own) {
				n, _ := issuance.Revision(cr)
				got = append(got, n)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("deletes %v, want %v", got, tc.want)
			}
		})
	}
}

func TestAdopt(t *testing.T) {
	tests := []struct {
		reason  string
		started string
		change  func(*world)
		at      time.Duration
		want    bool
	}{
		{reason: "the Secret is back", started: "DoesNotExist", want: true},
		{reason: "its data is back", started: "MissingData", want: true},
		{reason: "somebody wants a new one", started: "ManuallyTriggered"},
		{reason: "a renewal", started: "Renewing"},
		{reason: "the Secret is not back", started: "DoesNotExist", change: noSecret},
		{reason: "the Secret is back with another name", started: "DoesNotExist", change: rename},
		{reason: "the Secret is back from long ago", started: "DoesNotExist", at: 61 * hour},
		{reason: "the Secret is back, without requests", started: "DoesNotExist", change: func(w *world) { w.requests = nil }, want: true},
		{reason: "the new one is there already", started: "DoesNotExist", change: func(w *world) { _, cr := w.next(now); w.answer(cr, now) }},
		{reason: "the new one is there already, but nobody has seen the answer", started: "DoesNotExist", change: func(w *world) {
			key, cr := w.next(now)
			answer := cr.DeepCopy()
			w.answer(answer, now)
			w.secret = w.newSecret(key, answer)
			w.requests = w.requests[1:]
			w.crt.Status.Revision = nil
			revision(cr, 1)
		}},
		{reason: "a request waits, with another key", started: "DoesNotExist", change: func(w *world) { w.next(now) }, want: true},
		{reason: "the Secret is somebody else's", started: "DoesNotExist", change: func(w *world) { w.owner = newCertificate("api") }},
		{reason: "being deleted", started: "DoesNotExist", change: deleted},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			if tc.change != nil {
				tc.change(w)
			}
			issuance.SetIssuing(w.crt, issuance.Finding{Reason: tc.started}, now)
			got := issuance.Adopt(w.situation(), now.Add(tc.at))
			if got.None() == tc.want {
				t.Errorf("adopts: %+v, want %v", got, tc.want)
			}
			if tc.want {
				issuance.SetAdopted(w.crt)
				if start := backoff.Decide(w.situation(), now.Add(tc.at)); !start.Why.None() {
					t.Errorf("starts again at once: %+v", start.Why)
				}
			}
		})
	}
	if w := newWorld(t); !issuance.Adopt(w.situation(), now).None() {
		t.Error("adopts although nothing is issued")
	}
}

func TestRestoredRevision(t *testing.T) {
	w := newWorld(t)
	stray := func(name string, n int) *cmv1.CertificateRequest {
		cr := named(w.requests[0], name)
		cr.OwnerReferences[0].UID = "before the restore"
		revision(cr, n)
		return cr
	}
	other := stray("api-9", 9)
	other.Annotations[cmv1.CertificateNameKey] = "api"
	requests := []*cmv1.CertificateRequest{stray("web-3", 3), stray("web-4", 4), other}
	if got := issuance.RestoredRevision(w.crt, requests); got != nil {
		t.Errorf("revision %d, though the status has one", *got)
	}
	w.crt.Status.Revision = nil
	if got := issuance.RestoredRevision(w.crt, requests); got == nil || *got != 4 {
		t.Errorf("revision %v, want 4", got)
	}
	if got := issuance.RestoredRevision(w.crt, w.requests); got != nil {
		t.Errorf("revision %d of a request that is its own", *got)
	}
}

func TestTemporary(t *testing.T) {
	for _, isCA := range []bool{false, true} {
		w := newWorld(t)
		w.crt.Spec.IsCA = isCA
		key, cr := w.next(begin)
		data, err := issuance.Temporary(cr, begin)
		if err != nil {
			t.Fatal(err)
		}
		certs, err := pki.ParseCertificates(data)
		if err != nil {
			t.Fatal(err)
		}
		cert := certs[0]
		if cert.Issuer.CommonName != "cert-manager.local" || cert.IsCA != isCA || !pki.SameKey(cert.PublicKey, key.Public()) || !slices.Equal(cert.DNSNames, w.crt.Spec.DNSNames) {
			t.Errorf("certificate %+v", cert.Subject)
		}
		content, err := secret.Interim(w.crt, data, key)
		if err != nil {
			t.Fatal(err)
		}
		applied, err := content.Apply(secret.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w.secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: applied.Annotations}, Data: applied.Data}
		if ready := issuance.Ready(w.situation(), begin); ready.Problem.Reason != issuance.ReasonTemporary {
			t.Errorf("a temporary certificate looks ready: %+v", ready.Problem)
		}
		if step := issuance.Issue(w.situation(), key, begin).Step; step != issuance.Wait {
			t.Errorf("another temporary certificate: %v", step)
		}
	}
}

func TestMaintain(t *testing.T) {
	w := newWorld(t)
	if _, drift, err := issuance.Maintain(w.situation(), false, now); err != nil || drift != secret.MetadataMismatch {
		t.Errorf("a Secret without labels: %q, %v", drift, err)
	}
	for reason, change := range map[string]func(*world){
		"somebody else's": annotate(cmv1.CertificateNameKey, "api"), "empty": with(corev1.TLSCertKey, ""), "absent": noSecret, "being issued": issuing, "being deleted": deleted,
		"shared": func(w *world) { w.owner = newCertificate("api") },
	} {
		w := newWorld(t)
		change(w)
		if _, drift, err := issuance.Maintain(w.situation(), false, now); err != nil || drift != "" {
			t.Errorf("%s: %q, %v", reason, drift, err)
		}
	}
}
