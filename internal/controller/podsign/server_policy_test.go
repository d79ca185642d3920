package podsign_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/run/server"
)

// examplePolicies creates the policies of an example and waits until they are
// in force.
func (w *world) examplePolicies(t testing.TB, name string) {
	t.Helper()
	text, err := os.ReadFile("../../../deploy/examples/policies/" + name)
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		p := &v1alpha1.CertificatePolicy{}
		if err := yaml.UnmarshalStrict([]byte(document), p); err != nil {
			t.Fatal(err)
		}
		w.create(t, p)
		apitest.Eventually(t, "policy "+p.Name+" is in force", func() bool {
			if err := w.api.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
				t.Fatal(err)
			}
			return p.Status.ObservedGeneration == p.Generation && meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.Ready)
		})
	}
}

// A policy about pods decides about the certificate that the signer would
// issue: the request itself names nobody.
func TestPolicy(t *testing.T) {
	w := newWorld(t, apitest.Start(t, func(cfg *server.Config) {
		cfg.Admission.DisabledPlugins = []string{"PodCertificateIdentity"} // its pods declare no volume for this signer
		cfg.PodSigners.Install, cfg.PodSigners.TrustDomain = []string{"spiffe"}, "example.org"
	}))
	w.examplePolicies(t, "spiffe.yaml")

	refused := w.ask(t, w.pod(t, "web-1", nil), "unlabelled", "certplane.dev/spiffe")
	if got, message := condition(refused), refused.Status.Conditions[0].Message; !strings.HasPrefix(got, "Denied ") || !strings.Contains(message, "label the namespace mesh.example.com/identity=enabled") {
		t.Errorf("in a namespace without the label: %s: %s", got, message)
	}

	namespace, err := w.core.CoreV1().Namespaces().Get(t.Context(), w.namespace, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	metav1.SetMetaDataLabel(&namespace.ObjectMeta, "mesh.example.com/identity", "enabled")
	if _, err := w.core.CoreV1().Namespaces().Update(t.Context(), namespace, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	leaf := leafOf(t, w.ask(t, w.pod(t, "web-2", nil), "labelled", "certplane.dev/spiffe"))
	if len(leaf.URIs) != 1 || leaf.URIs[0].String() != "spiffe://example.org/ns/"+w.namespace+"/sa/web" {
		t.Errorf("URIs %v", leaf.URIs)
	}
	if life := leaf.NotAfter.Sub(leaf.NotBefore); life > 24*time.Hour {
		t.Errorf("the certificate lives for %v", life)
	}

	// The signer still issues the identity that the policy has ceased to permit.
	p := &v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: "spiffe"}}
	change := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"certificate":{"names":{"uri":{"patterns":["spiffe://example.com/**"]}}}}}`))
	if err := w.api.Patch(t.Context(), p, change); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the changed policy is in force", func() bool {
		return w.api.Get(t.Context(), client.ObjectKeyFromObject(p), p) == nil && p.Status.ObservedGeneration == p.Generation
	})
	if got := w.ask(t, w.pod(t, "web-3", nil), "elsewhere", "certplane.dev/spiffe"); !strings.HasPrefix(condition(got), "Denied ") {
		t.Errorf("an identity that no policy permits: %s", condition(got))
	}
}

// Requests of pods have no approval: they count in quotas before they are signed.
func TestQuota(t *testing.T) {
	w := newWorld(t, common.Start(t))
	w.declare(t, w.newSigner())
	p := &v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}, Spec: v1alpha1.CertificatePolicySpec{
		Effect: v1alpha1.PolicyLimit,
		Match:  v1alpha1.PolicyMatch{Kinds: []v1alpha1.RequestKind{v1alpha1.PodCertificateRequests}, Signers: []string{w.signerName()}},
		Quotas: []v1alpha1.PolicyQuota{{Name: "pod", Certificates: 1, Per: metav1.Duration{Duration: time.Hour}, By: v1alpha1.QuotaByPod}},
	}}
	w.create(t, p)
	apitest.Eventually(t, "the policy is in force", func() bool {
		return w.api.Get(t.Context(), client.ObjectKeyFromObject(p), p) == nil && meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.Ready)
	})
	first, second := w.pod(t, "web-1", nil), w.pod(t, "web-2", nil)
	leafOf(t, w.ask(t, first, "a", w.signerName()))
	refused := w.ask(t, first, "b", w.signerName())
	if got := condition(refused); !strings.HasPrefix(got, "Denied QuotaExceeded") || !strings.Contains(refused.Status.Conditions[0].Message, "a request fits again at ") {
		t.Errorf("one certificate too many for a pod: %s: %s", got, refused.Status.Conditions[0].Message)
	}
	leafOf(t, w.ask(t, second, "c", w.signerName()))
}
