package cluster_test

import (
	"bytes"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/run/cluster"
	"github.com/certplane/certplane/internal/run/server"
)

// With the rights that the manifests grant, Bundles are read from one namespace, and written to
// the namespaces and Secrets that the configuration names. The webhook checks them.
func TestBundles(t *testing.T) {
	s := apitest.Start(t, func(c *server.Config) {
		c.Controllers = []string{}
		c.Admission.DisabledPlugins = []string{"Bundle"}
	})
	for _, namespace := range []string{"roots", "team", "other"} {
		apitest.NewNamespace(t, apitest.Client(t, s.Admin(t)), namespace)
	}
	change := func(c *cluster.Config) {
		c.Controllers = []string{"*", "bundles"}
		c.TrustManager.TrustNamespace, c.TrustManager.TargetNamespaces, c.TrustManager.SecretTargets = "roots", []string{"team"}, []string{"company"}
	}
	w := startInWith(t, s, change)
	cfg := w.config(t)
	change(&cfg)
	cfg.Webhook.BindAddress = apitest.FreeAddress(t)
	run(t, cfg)
	w.reachWebhook(t, cfg.Webhook.BindAddress)
	api, err := client.New(s.Admin(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}

	ca := newCAText(t)
	source := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "roots", Name: "ca"}, Data: map[string][]byte{"ca.crt": ca}}
	if err := api.Create(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	bundle := func(name string, sources ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "trust.cert-manager.io/v1alpha1", "kind": "Bundle", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"sources": sources, "target": map[string]any{"configMap": map[string]any{"key": "ca.crt"}, "secret": map[string]any{"key": "ca.crt"}}},
		}}
	}
	secret := map[string]any{"secret": map[string]any{"name": "ca", "key": "ca.crt"}}
	apitest.Eventually(t, "the webhook refuses a Bundle without sources", func() bool {
		invalid := bundle("invalid", map[string]any{"useDefaultCAs": false})
		err := api.Create(t.Context(), invalid)
		if err == nil {
			_ = api.Delete(t.Context(), invalid)
		}
		return err != nil && strings.Contains(err.Error(), `admission webhook "trust.cert-manager.io" denied the request: spec.sources: Forbidden: must define at least one source`)
	})
	for _, name := range []string{"company", "unlisted"} {
		if err := api.Create(t.Context(), bundle(name, secret)); err != nil {
			t.Fatal(err)
		}
	}
	want := bytes.TrimSpace(ca)
	apitest.Eventually(t, "the targets of the listed Bundle", func() bool {
		configMap, secret := &corev1.ConfigMap{}, &corev1.Secret{}
		at := client.ObjectKey{Namespace: "team", Name: "company"}
		return api.Get(t.Context(), at, configMap) == nil && configMap.Data["ca.crt"] == string(want) &&
			api.Get(t.Context(), at, secret) == nil && bytes.Equal(secret.Data["ca.crt"], want)
	})
	condition := func(name string) (reason, message string) {
		b := bundle(name)
		if err := api.Get(t.Context(), client.ObjectKey{Name: name}, b); err != nil {
			t.Fatal(err)
		}
		conditions, _, _ := unstructured.NestedSlice(b.Object, "status", "conditions")
		for _, c := range conditions {
			reason, _ = c.(map[string]any)["reason"].(string)
			message, _ = c.(map[string]any)["message"].(string)
		}
		return reason, message
	}
	apitest.Eventually(t, "the Bundle is synced to allowed namespaces", func() bool {
		reason, message := condition("company")
		return reason == "Synced" && message == "Successfully synced Bundle to all allowed namespaces"
	})
	apitest.Eventually(t, "the other Bundle may not write Secrets", func() bool {
		reason, _ := condition("unlisted")
		return reason == "SecretTargetsDisabled"
	})
	for _, at := range []client.ObjectKey{{Namespace: "other", Name: "company"}, {Namespace: "team", Name: "unlisted"}} {
		if err := api.Get(t.Context(), at, &corev1.ConfigMap{}); client.IgnoreNotFound(err) != nil || err == nil {
			t.Errorf("%s exists: %v", at, err)
		}
	}
}
