package issuance_test

import (
	"crypto"
	"slices"
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance"
)

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
			var stale []string
			for _, d := range plan.Delete {
				stale = append(stale, d.Request.Name)
			}
			keep := ""
			if plan.Keep != nil {
				keep = plan.Keep.Name
			}
			if !slices.Equal(stale, tc.delete) || keep != tc.keep || plan.Create != tc.create {
				t.Errorf("deletes %q, keeps %q, creates %v; want %q, %q, %v", stale, keep, plan.Create, tc.delete, tc.keep, tc.create)
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
		{issuance.CopiedAnnotations{"*", "certplane.dev/"}, "certplane.dev/override", false},
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

// With Never, a request that was denied is not found again by the next attempt.
func TestNeverForgetsDenials(t *testing.T) {
	w := newWorld(t)
	key, cr := w.next(begin)
	denied(begin)(w, cr)
	backoff.SetFailed(w.crt, issuance.Issue(w.situation(), key, begin).Why, begin)
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
