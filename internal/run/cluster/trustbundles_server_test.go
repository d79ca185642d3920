package cluster_test

import (
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/run/controllermanager"
)

// With the rights that the manifests grant, the controller fills ConfigMaps and writes no
// Secrets. A new process writes nothing.
func TestTrustBundles(t *testing.T) {
	w := startWith(t, "*", "trustbundles")
	kinds, err := controllermanager.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.New(w.Admin(t), client.Options{Scheme: kinds})
	if err != nil {
		t.Fatal(err)
	}
	cfg := w.config(t)
	cfg.Controllers = []string{"trustbundles"}
	first := run(t, cfg)
	root := string(newCAText(t))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "ca"}, Data: map[string][]byte{"ca.crt": newCAText(t)}}
	bundle := &v1alpha1.TrustBundle{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "trust"}, Spec: v1alpha1.TrustBundleSpec{
		Sources: []v1alpha1.TrustSource{{InLine: root}, {Secret: &v1alpha1.TrustObject{Name: "ca", Key: "ca.crt"}}},
	}}
	for _, object := range []client.Object{secret, bundle} {
		if err := api.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	// The manifests contain a webhook that no pod answers. It is called only for some.
	published := bundle.DeepCopy()
	published.ObjectMeta = metav1.ObjectMeta{Namespace: "default", Name: "published"}
	published.Spec.Target = &v1alpha1.TrustTarget{ClusterTrustBundle: &v1alpha1.TrustClusterTarget{Name: "published"}}
	if err := api.Create(t.Context(), published); err == nil || !strings.Contains(err.Error(), `failed calling webhook "trust.certplane.dev"`) {
		t.Errorf("a ClusterTrustBundle as target: %v", err)
	}
	target := &corev1.ConfigMap{}
	synced := func() bool {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(bundle), bundle); err != nil {
			t.Fatal(err)
		}
		return bundle.Status.RootCount == 2 && bundle.Status.Digest != "" && api.Get(t.Context(), client.ObjectKeyFromObject(bundle), target) == nil
	}
	apitest.Eventually(t, "the roots are in the target", synced)
	for verb, want := range map[string]bool{"get": true, "create": false, "update": false, "patch": false, "delete": false} {
		if got := w.Allowed(t, "system:serviceaccount:certplane-system:trust-bundle-writer", nil, authorizationv1.ResourceAttributes{
			Namespace: "default", Verb: verb, Resource: "secrets", Name: "ca",
		}); got != want {
			t.Errorf("may %s Secrets: %t", verb, got)
		}
	}
	for user, may := range map[string]bool{"certplane-system:certplane-trust-edit": true, "certplane-system:certplane-trust-view": false} {
		if _, err := w.admin.RbacV1().ClusterRoles().Get(t.Context(), user, metav1.GetOptions{}); err != nil {
			t.Errorf("%s, which writes %t: %v", user, may, err)
		}
	}

	version, written := bundle.ResourceVersion, target.ResourceVersion
	first.stop()
	<-first.ended
	run(t, cfg)
	other := bundle.DeepCopy()
	other.ObjectMeta = metav1.ObjectMeta{Namespace: "default", Name: "zz"} // processed after the other one
	if err := api.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	bundle.Name = "zz"
	apitest.Eventually(t, "the new process works", synced)
	bundle.Name = "trust"
	if !synced() || bundle.ResourceVersion != version || target.ResourceVersion != written {
		t.Errorf("the new process has written: %s, %s", bundle.ResourceVersion, target.ResourceVersion)
	}
}
