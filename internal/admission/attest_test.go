package admission

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
)

type trustBundle = certificatesv1.ClusterTrustBundle

// trusts returns a bundle of the signer with edits applied.
func trusts(signerName string, edits ...func(*trustBundle)) *trustBundle {
	bundle := &trustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: "test"},
		Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: signerName, TrustBundle: "anchors"},
	}
	for _, edit := range edits {
		edit(bundle)
	}
	return bundle
}

func bundleAttributes(operation admission.Operation, obj, old runtime.Object) admission.Attributes {
	return admission.NewAttributesRecord(obj, old, certificatesv1.SchemeGroupVersion.WithKind("ClusterTrustBundle"), "", "test",
		certificatesv1.SchemeGroupVersion.WithResource("clustertrustbundles"), "", operation, nil, false, alice)
}

func TestAttest(t *testing.T) {
	broken := map[string]answer{"abc.com/xyz": yesButErr, "abc.com/*": yesButErr}
	relabelled := func(b *trustBundle) { b.Labels = map[string]string{"a": "b"} }
	cleaned := func(b *trustBundle) {
		b.Finalizers, b.OwnerReferences = []string{"a.b/c"}, []metav1.OwnerReference{{Name: "owner"}}
		b.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	}
	reanchored := func(b *trustBundle) { b.Spec.TrustBundle = "others" }
	for _, tc := range []struct {
		reason   string
		answers  map[string]answer
		obj, old *trustBundle // old is nil for a create
		allowed  bool
	}{
		{"no signer, new", nil, trusts(""), nil, true},
		{"no signer, changed", nil, trusts("", reanchored), trusts(""), true},
		{"the signer's name", map[string]answer{"abc.com/xyz": yes}, trusts("abc.com/xyz"), nil, true},
		{"the signer's domain", map[string]answer{"abc.com/*": yes}, trusts("abc.com/xyz"), nil, true},
		{"another signer", map[string]answer{"abc.com/other": yes}, trusts("abc.com/xyz"), nil, false},
		{"nothing", nil, trusts("abc.com/xyz"), nil, false},
		{"an authorizer that fails", broken, trusts("abc.com/xyz"), nil, false},
		{"the new object's signer counts", map[string]answer{"abc.com/old": yes}, trusts("abc.com/xyz"), trusts("abc.com/old"), false},
		{"other anchors", nil, trusts("abc.com/xyz", reanchored), trusts("abc.com/xyz"), false},
		{"other labels", nil, trusts("abc.com/xyz", relabelled), trusts("abc.com/xyz"), false},
		{"no change", broken, trusts("abc.com/xyz"), trusts("abc.com/xyz"), true},
		{"what garbage collection changes", broken, trusts("abc.com/xyz", cleaned), trusts("abc.com/xyz"), true},
		{"that and more", broken, trusts("abc.com/xyz", cleaned, relabelled), trusts("abc.com/xyz"), false},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			a := bundleAttributes(admission.Create, tc.obj, nil)
			if tc.old != nil {
				a = bundleAttributes(admission.Update, tc.obj, tc.old)
			}
			err := validate(t, newAttest(&rules{answers: tc.answers}), a)
			const want = `clustertrustbundles.certificates.k8s.io "test" is forbidden: user not permitted to attest for signerName "abc.com/xyz"`
			switch {
			case tc.allowed && err != nil:
				t.Errorf("refused: %v", err)
			case !tc.allowed && (!apierrors.IsForbidden(err) || err.Error() != want):
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

func TestAttestRefusesOtherTypes(t *testing.T) {
	everything := &rules{answers: map[string]answer{"abc.com/xyz": yes}}
	for reason, a := range map[string]admission.Attributes{
		"a create":                   bundleAttributes(admission.Create, &metav1.Status{}, nil),
		"an update":                  bundleAttributes(admission.Update, &metav1.Status{}, trusts("abc.com/xyz")),
		"an update of nothing known": bundleAttributes(admission.Update, trusts("abc.com/xyz"), &metav1.Status{}),
	} {
		if err := validate(t, newAttest(everything), a); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

func TestAttestMindsItsOwnRequests(t *testing.T) {
	foreign := admission.NewAttributesRecord(trusts("abc.com/xyz"), nil, certificatesv1.SchemeGroupVersion.WithKind("Other"), "", "test",
		certificatesv1.SchemeGroupVersion.WithResource("others"), "", admission.Create, nil, false, alice)
	if err := validate(t, newAttest(&rules{}), foreign); err != nil {
		t.Errorf("refused: %v", err)
	}
}

// warnings records the warnings that clients get.
type warnings []string

func (w *warnings) AddWarning(_, text string) { *w = append(*w, text) }

// Every user who may delete bundles may delete this one, but gets a warning.
func TestAttestWarnsOfDeletion(t *testing.T) {
	const told = `deleting trust bundle "test" of signer "abc.com/xyz", for which you may not attest: you cannot create it again`
	for _, tc := range []struct {
		reason  string
		answers map[string]answer
		old     runtime.Object
		want    warnings
	}{
		{"of a signer", nil, trusts("abc.com/xyz"), warnings{told}},
		{"of one's own signer", map[string]answer{"abc.com/*": yes}, trusts("abc.com/xyz"), nil},
		{"of no signer", nil, trusts(""), nil},
		{"of nobody knows what", nil, nil, nil},
	} {
		var got warnings
		ctx := warning.WithWarningRecorder(context.Background(), &got)
		plugin := newAttest(&rules{answers: tc.answers}).(admission.ValidationInterface)
		if err := plugin.Validate(ctx, bundleAttributes(admission.Delete, nil, tc.old), nil); err != nil {
			t.Errorf("%s: refused: %v", tc.reason, err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: warnings (-want +got):\n%s", tc.reason, diff)
		}
	}
}
