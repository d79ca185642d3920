package csr

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// The requester is the authenticated user, whatever the client sent.
func TestCreateAssertsRequester(t *testing.T) {
	claimed := func(c *csr) {
		c.Spec.Username, c.Spec.UID, c.Spec.Groups = "root", "0", []string{"system:masters"}
		c.Spec.Extra = map[string]certificatesv1.ExtraValue{"scopes": {"all"}}
	}
	nobody := func(c *csr) { c.Spec.Username = "" }
	alice := &user.DefaultInfo{
		Name: "alice", UID: "1234", Groups: []string{"system:authenticated"},
		Extra: map[string][]string{"id": {"X509SHA256=1", "2"}},
	}
	asserted := certificatesv1.CertificateSigningRequestSpec{
		Username: "alice", UID: "1234", Groups: []string{"system:authenticated"},
		Extra: map[string]certificatesv1.ExtraValue{"id": {"X509SHA256=1", "2"}},
	}
	for _, tc := range []struct {
		reason string
		user   user.Info // nil: not authenticated
		sent   func(*csr)
		want   certificatesv1.CertificateSigningRequestSpec
	}{
		{"nobody asks", nil, nobody, certificatesv1.CertificateSigningRequestSpec{}},
		{"nobody asks but claims to be somebody", nil, claimed, certificatesv1.CertificateSigningRequestSpec{}},
		{"alice asks", alice, nobody, asserted},
		{"alice asks but claims to be root", alice, claimed, asserted},
		{"a user without groups or extra has none", &user.DefaultInfo{Name: "bob", Extra: map[string][]string{}}, claimed,
			certificatesv1.CertificateSigningRequestSpec{Username: "bob"}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			ctx := context.Background()
			if tc.user != nil {
				ctx = request.WithUser(ctx, tc.user)
			}
			obj := newCSR(t, tc.sent)
			want := tc.want
			want.Request, want.SignerName, want.Usages = obj.Spec.Request, obj.Spec.SignerName, obj.Spec.Usages

			newStrategy(t).PrepareForCreate(ctx, obj)
			if diff := cmp.Diff(want, obj.Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCreateStartsUndecided(t *testing.T) {
	obj := newCSR(t, conditions(decided("Approved", "forged")), func(c *csr) {
		c.Status.Certificate = []byte("forged")
		c.Spec.ExpirationSeconds = ptr.To[int32](600)
		c.Labels, c.Finalizers, c.Generation = map[string]string{"a": "b"}, []string{"example.com/hold"}, 7
	})
	want := obj.DeepCopy()
	want.Spec.Username = ""
	want.Status = certificatesv1.CertificateSigningRequestStatus{Conditions: []condition{}} // empty, not nil

	newStrategy(t).PrepareForCreate(context.Background(), obj)
	if diff := cmp.Diff(want, obj); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
}

// If the feature is off, the field is treated as if it did not exist.
func TestCreateWithoutDurations(t *testing.T) {
	base := newStrategy(t)
	base.durations = false
	obj := newCSR(t, func(c *csr) { c.Spec.ExpirationSeconds = ptr.To[int32](1) })

	base.PrepareForCreate(context.Background(), obj)
	if obj.Spec.ExpirationSeconds != nil {
		t.Errorf("expirationSeconds is %d, want none", *obj.Spec.ExpirationSeconds)
	}
	if errs := base.Validate(in("v1"), obj); len(errs) != 0 {
		t.Errorf("refused for a field that does not exist: %v", errs)
	}
}

func TestStoredDurationSurvivesTheFeature(t *testing.T) {
	base := newStrategy(t)
	base.durations = false
	old := newCSR(t, func(c *csr) { c.Spec.ExpirationSeconds = ptr.To[int32](600) })
	obj := old.DeepCopy()
	obj.Spec.ExpirationSeconds = nil

	base.PrepareForUpdate(in("v1"), obj, old)
	if diff := cmp.Diff(old, obj); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
}

// The result at each endpoint of an update that changes everything.
func TestUpdateMatrix(t *testing.T) {
	old := newCSR(t, conditions(decided("Approved", "stored"), decided("Failed", "stored"), decided("Custom", "stored")))
	sent := newCSR(t, conditions(decided("Other", "new"), decided("Approved", "new"), decided("Failed", "new")), func(c *csr) {
		c.Labels = map[string]string{"a": "b"}
		c.Annotations = map[string]string{"c": "d"}
		c.Finalizers, c.OwnerReferences = []string{"example.com/new"}, []metav1.OwnerReference{{Name: "new"}}
		c.Spec.SignerName, c.Spec.Username = "example.com/other", "root"
		c.Status.Certificate = []byte("new")
	})
	metadata := sent.ObjectMeta
	kept := *metadata.DeepCopy() // except the owners
	kept.OwnerReferences = nil
	base := newStrategy(t)
	for _, tc := range []struct {
		reason   string
		strategy rest.RESTUpdateStrategy
		metadata metav1.ObjectMeta
		want     certificatesv1.CertificateSigningRequestStatus
	}{
		{"only metadata changes through the resource", base, metadata, old.Status},
		{"through /status, all but decisions, in the order sent", statusStrategy{base}, kept, certificatesv1.CertificateSigningRequestStatus{
			Conditions:  []condition{decided("Other", "new"), decided("Approved", "stored"), decided("Failed", "new")},
			Certificate: []byte("new"),
		}},
		{"through /approval, every condition but no certificate", approvalStrategy{base}, kept, certificatesv1.CertificateSigningRequestStatus{
			Conditions: []condition{decided("Other", "new"), decided("Approved", "new"), decided("Failed", "new")},
		}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			obj := sent.DeepCopy()
			tc.strategy.PrepareForUpdate(in("v1"), obj, old)
			want := &csr{ObjectMeta: tc.metadata, Spec: old.Spec, Status: tc.want}
			if diff := cmp.Diff(want, obj); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStrategyFacts(t *testing.T) {
	base, ctx := newStrategy(t), context.Background()
	if base.NamespaceScoped() || base.AllowCreateOnUpdate(ctx) || !base.AllowUnconditionalUpdate(ctx) {
		t.Error("requests are cluster-scoped, never created by an update, and need no resourceVersion")
	}
	obj := newCSR(t)
	if w := append(base.WarningsOnCreate(ctx, obj), base.WarningsOnUpdate(ctx, obj, obj)...); len(w) != 0 {
		t.Errorf("warnings: %v", w)
	}
}

func TestResetFields(t *testing.T) {
	base := newStrategy(t)
	for _, tc := range []struct {
		reason   string
		strategy rest.ResetFieldsStrategy
		want     *fieldpath.Set
	}{
		{"the resource", base, fieldpath.NewSet(fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("status"))},
		{"/status", statusStrategy{base}, fieldpath.NewSet(ownersPath, fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("status", "conditions"))},
		{"/approval", approvalStrategy{base}, fieldpath.NewSet(ownersPath, fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("status", "certificate"))},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			got := tc.strategy.GetResetFields()
			for _, version := range []fieldpath.APIVersion{"certificates.k8s.io/v1", "certificates.k8s.io/v1beta1"} {
				if got[version] == nil || !got[version].Equals(tc.want) {
					t.Errorf("%s: got %v, want %v", version, got[version], tc.want)
				}
			}
			if len(got) != 2 {
				t.Errorf("got %d versions", len(got))
			}
		})
	}
}
