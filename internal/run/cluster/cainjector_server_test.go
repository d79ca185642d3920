package cluster_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/cluster"
	"github.com/certplane/certplane/internal/run/server"
)

// newCAText returns a CA in PEM.
func newCAText(t *testing.T) []byte {
	t.Helper()
	root, err := pki.NewRoot(pki.UnrecordedSigning, "ca", apitest.NewKey(t), time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return pki.EncodeCertificates(root.Certificate())
}

// source creates a Secret with a CA for direct injection.
func (w world) source(t *testing.T, namespace string) (ca []byte) {
	t.Helper()
	ca = newCAText(t)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "ca", Annotations: map[string]string{"cert-manager.io/allow-direct-injection": "true"}},
		Data:       map[string][]byte{"ca.crt": ca},
	}
	if _, err := w.admin.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return ca
}

// hook creates a webhook configuration that names the source of its CA.
func (w world) hook(t *testing.T, name, annotation, value string) {
	t.Helper()
	hook := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{annotation: value}},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "hook.example.com", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/")},
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		}},
	}
	if _, err := w.admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), hook, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (w world) awaitCA(t *testing.T, name string, want []byte) {
	t.Helper()
	apitest.Eventually(t, name+" has the CA", func() bool {
		hook, err := w.admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Equal(hook.Webhooks[0].ClientConfig.CABundle, want)
	})
}

func (w world) awaitWarning(t *testing.T, name, reason string) {
	t.Helper()
	apitest.Eventually(t, name+" has the Event "+reason, func() bool {
		all, err := w.admin.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=" + reason + ",involvedObject.name=" + name})
		return err == nil && len(all.Items) > 0
	})
}

// With the rights that the manifests grant in one namespace, the controller injects the CAs of
// that namespace, and the CA of the API, whose file it follows.
func TestCAInjector(t *testing.T) {
	const direct, api = "cert-manager.io/inject-ca-from-secret", "cert-manager.io/inject-apiserver-ca"
	s := apitest.Start(t, func(c *server.Config) { c.Controllers = []string{} })
	apitest.NewNamespace(t, apitest.Client(t, s.Admin(t)), "hooks")
	change := func(c *cluster.Config) { c.Controllers, c.CAInjector.Namespace = []string{"*", "cainjector"}, "hooks" }
	w := startInWith(t, s, change)
	cfg := w.config(t)
	change(&cfg)
	cas := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(cas, s.Admin(t).CAData, 0o600); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := clientcmd.LoadFromFile(cfg.ClientConnection.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig.Clusters["c"].CertificateAuthorityData, kubeconfig.Clusters["c"].CertificateAuthority = nil, cas
	if err := clientcmd.WriteToFile(*kubeconfig, cfg.ClientConnection.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	run(t, cfg)

	here := w.source(t, "hooks")
	w.source(t, "default")
	w.hook(t, "here", direct, "hooks/ca")
	w.awaitCA(t, "here", here)
	w.hook(t, "elsewhere", direct, "default/ca")
	w.awaitWarning(t, "elsewhere", "CASourceNotAllowed")
	for namespace, want := range map[string]bool{"hooks": true, "default": false} {
		if got := s.Allowed(t, "system:serviceaccount:certplane-system:cert-manager-cainjector", nil, authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: "get", Resource: "secrets", Name: "ca",
		}); got != want {
			t.Errorf("may read Secrets in %s: %t", namespace, got)
		}
	}

	w.hook(t, "api", api, "true")
	w.awaitCA(t, "api", s.Admin(t).CAData)
	both := append(bytes.Clone(s.Admin(t).CAData), newCAText(t)...)
	if err := os.WriteFile(cas, both, 0o600); err != nil {
		t.Fatal(err)
	}
	w.awaitCA(t, "api", both)
}

// An API without cert-manager's kinds is enough for the other sources.
func TestCAInjectorWithoutCertificates(t *testing.T) {
	s := apitest.Start(t, func(c *server.Config) { c.Controllers = []string{} })
	w := world{Server: s, admin: apitest.Client(t, s.Admin(t)), kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: s.Stock(t).Host}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c"}},
		CurrentContext: "c",
	}, w.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	cfg := w.config(t)
	cfg.Controllers, cfg.UseServiceAccountCredentials, cfg.LeaderElection.ResourceNamespace = []string{"cainjector"}, false, "default"
	run(t, cfg)
	ca := w.source(t, "default")
	w.hook(t, "secret", "cert-manager.io/inject-ca-from-secret", "default/ca")
	w.awaitCA(t, "secret", ca)
	w.hook(t, "certificate", "cert-manager.io/inject-ca-from", "default/web")
	w.awaitWarning(t, "certificate", "CASourceNotFound")
	w.hook(t, "api", "cert-manager.io/inject-apiserver-ca", "true")
	w.awaitWarning(t, "api", "CASourceNotFound")
}
