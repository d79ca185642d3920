package admission

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authentication/user"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/admission/certplane"
	"github.com/certplane/certplane/internal/pki"
)

// Each plugin is responsible for one refusal here: disabling it allows that
// write, and no other.
func TestPluginsAreSwitchedByName(t *testing.T) {
	issued := signedBy("abc.com/xyz")
	issued.Status.Certificate = []byte("x")
	masters := signedBy("kubernetes.io/kube-apiserver-client")
	masters.Spec.Request = newRequest(t, pki.Subject{Organizations: []string{"system:masters"}})

	refusals := map[string]admission.Attributes{
		"NamespaceLifecycle": admission.NewAttributesRecord(nil, nil, corev1.SchemeGroupVersion.WithKind("Namespace"), "", "default",
			corev1.SchemeGroupVersion.WithResource("namespaces"), "", admission.Delete, &metav1.DeleteOptions{}, false, alice),
		"CertificateApproval":           update("approval", signedBy("abc.com/xyz"), signedBy("abc.com/xyz")),
		"CertificateSigning":            update("status", issued, signedBy("abc.com/xyz")),
		"ClusterTrustBundleAttest":      bundleAttributes(admission.Create, trusts("abc.com/xyz"), nil),
		"CertificateSubjectRestriction": attributes(admission.Create, "", masters, nil, false),
		"Revocation": admission.NewAttributesRecord(&unstructured.Unstructured{}, nil, v1alpha1.GroupVersion.WithKind("Revocation"), "", "empty",
			v1alpha1.GroupVersion.WithResource("revocations"), "", admission.Create, &metav1.CreateOptions{}, false, alice),
		"Signer": admission.NewAttributesRecord(&unstructured.Unstructured{}, nil, v1alpha1.GroupVersion.WithKind("Signer"), "", "empty",
			certplane.Resource, "", admission.Create, &metav1.CreateOptions{}, false, alice),
	}
	check := func(t *testing.T, disabled ...string) {
		t.Helper()
		// Plugins that other objects configure are tested with a server.
		off := append([]string{"MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook"}, disabled...)
		chain, err := New(Config{DisabledPlugins: off}, &rules{}, fromFake())
		if err != nil {
			t.Fatal(err)
		}
		for plugin, a := range refusals {
			want := true
			for _, name := range disabled {
				want = want && name != plugin
			}
			if got := validate(t, chain, a) != nil; got != want {
				t.Errorf("without %v: %s refuses: %v, want %v", disabled, plugin, got, want)
			}
		}
	}
	check(t)
	for plugin := range refusals {
		check(t, plugin)
	}
	check(t, "NamespaceLifecycle", "NodeRestriction", "PodCertificateIdentity", "CertificateApproval", "CertificateSigning", "ClusterTrustBundleAttest", "CertificateSubjectRestriction", "CertificateRequestLifetime", "CertManager", "Signer")
}

// fromFake initializes plugins for a server without objects.
func fromFake() admission.PluginInitializer {
	client := fake.NewClientset()
	loose := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{certplane.Resource: "SignerList"})
	return admission.PluginInitializers{
		initializer.New(client, loose, informers.NewSharedInformerFactory(client, 0), nil, nil, nil, nil, nil), withRevoker{},
	}
}

// withRevoker gives plugins a Revoker that refuses everything.
type withRevoker struct{}

func (withRevoker) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(WantsRevoker); ok {
		wants.SetRevoker(withRevoker{})
	}
}

func (withRevoker) Create(context.Context, user.Info, *v1alpha1.Revocation) error {
	return errors.New("refused")
}

func (withRevoker) Delete(*v1alpha1.Revocation) error { return errors.New("refused") }

// A plugin with a missing dependency would panic at the first request.
func TestPluginsThatMissSomething(t *testing.T) {
	if _, err := New(Config{}, &rules{}); err == nil || !strings.Contains(err.Error(), "NamespaceLifecycle") {
		t.Errorf("error = %v, want one that names the plugin", err)
	}
}

// The order decides which refusal clients get when several plugins would
// refuse.
func TestPluginOrder(t *testing.T) {
	want := []string{
		"NamespaceLifecycle", "NodeRestriction", "PodCertificateIdentity", "CertificateApproval", "CertificateSigning", "ClusterTrustBundleAttest", "CertificateSubjectRestriction", "CertificateRequestLifetime", "CertManager", "Signer",
		"ACMEServer", "Revocation", "Bundle", "TrustBundle", "CertificatePolicy", "MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook",
	}
	var got []string
	for _, p := range plugins() {
		got = append(got, p.name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
}

func TestUnknownPlugin(t *testing.T) {
	_, err := New(Config{DisabledPlugins: []string{"CertificateSigning", "certificateapproval"}}, &rules{})
	const want = `admission.disabledPlugins[1]: unknown name "certificateapproval"; known: NamespaceLifecycle, NodeRestriction, PodCertificateIdentity, CertificateApproval, CertificateSigning, ClusterTrustBundleAttest, CertificateSubjectRestriction, CertificateRequestLifetime, CertManager, Signer, ACMEServer, Revocation, Bundle, TrustBundle, CertificatePolicy, MutatingAdmissionPolicy, MutatingAdmissionWebhook, ValidatingAdmissionPolicy, ValidatingAdmissionWebhook`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestNoAuthorizer(t *testing.T) {
	if _, err := New(Config{}, nil); err == nil {
		t.Error("nobody to ask, yet no error")
	}
}

// A call without a user fails closed.
func TestNoUser(t *testing.T) {
	everything := &rules{answers: map[string]answer{"abc.com/xyz": yes}}
	if (signers{everything}).allow(t.Context(), nil, "sign", "abc.com/xyz") {
		t.Error("nobody may sign")
	}
}
