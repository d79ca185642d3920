package cluster_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/server"
)

// Before a server that knows nothing of cert-manager.io, the webhook makes and
// refuses what our own server does, in the same words.
func TestWebhook(t *testing.T) {
	chosen := []string{"*", "issuers", "certificaterequests"}
	w := startIn(t, apitest.Start(t, func(c *server.Config) {
		c.Controllers = []string{}
		c.Admission.DisabledPlugins = []string{"CertManager"}
	}), chosen...)
	cfg := w.config(t)
	cfg.Controllers, cfg.Webhook.BindAddress = chosen, freeAddress(t)
	run(t, cfg)
	w.reachWebhook(t, cfg.Webhook.BindAddress)

	alice := w.user(t, "alice", rbacv1.PolicyRule{Verbs: []string{"create", "update"}, Resources: []string{"certificaterequests", "certificaterequests/status"}})
	request := newRequest(t, "web")
	apitest.Eventually(t, "the webhook is reached", func() bool {
		request.ResourceVersion = ""
		return alice.Create(t.Context(), request) == nil
	})
	if request.Spec.Username != "alice" {
		t.Errorf("the request is of %q", request.Spec.Username)
	}
	invalid := newRequest(t, "invalid")
	invalid.Spec.Request = []byte("invalid-csr")
	refused(t, alice.Create(t.Context(), invalid), "spec.request: Invalid value")
	changed := request.DeepCopy()
	changed.Spec.IsCA = true
	refused(t, alice.Update(t.Context(), changed), "spec: Forbidden: cannot change spec after creation")

	approved := request.DeepCopy()
	certmanager.SetRequestCondition(approved, cmv1.CertificateRequestConditionApproved, cmmeta.ConditionTrue, "Test", "by a test", metav1.Now())
	refused(t, alice.Status().Update(t.Context(), approved.DeepCopy()), `user "alice" does not have permissions to set approved/denied conditions for issuer {ca  }`)
	checker := w.user(t, "checker", rbacv1.PolicyRule{Verbs: []string{"update"}, Resources: []string{"certificaterequests/status"}},
		rbacv1.PolicyRule{Verbs: []string{"approve"}, Resources: []string{"signers"}, ResourceNames: []string{"issuers.cert-manager.io/default.ca"}})
	if err := checker.Status().Update(t.Context(), approved); err != nil {
		t.Errorf("with the right: %v", err)
	}
}

// reachWebhook has the server reach the webhook without a service.
func (w world) reachWebhook(t *testing.T, address string) {
	t.Helper()
	patch := func(path string) []byte {
		return fmt.Appendf(nil, `{"webhooks":[{"name":"webhook.cert-manager.io","clientConfig":{"service":null,"url":"https://%s%s"}}]}`, address, path)
	}
	const name = "certplane-webhook.certplane-system"
	hooks := w.admin.AdmissionregistrationV1()
	if _, err := hooks.MutatingWebhookConfigurations().Patch(t.Context(), name, types.StrategicMergePatchType, patch("/mutate"), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := hooks.ValidatingWebhookConfigurations().Patch(t.Context(), name, types.StrategicMergePatchType, patch("/validate"), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// user is a client of somebody who may do something in cert-manager.io.
func (w world) user(t *testing.T, name string, rules ...rbacv1.PolicyRule) client.Client {
	t.Helper()
	for i := range rules {
		rules[i].APIGroups = []string{certmanager.Group}
	}
	w.Grant(t, name, rules...)
	return connect(t, w.As(t, name))
}

func connect(t *testing.T, cfg *rest.Config) client.Client {
	t.Helper()
	kinds := runtime.NewScheme()
	if err := certmanager.AddToScheme(kinds); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cfg, client.Options{Scheme: kinds})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newRequest(t *testing.T, name string) *cmv1.CertificateRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{"web.example.com"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &cmv1.CertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: cmv1.CertificateRequestSpec{
			Username: "mallory", IssuerRef: cmmeta.IssuerReference{Name: "ca"},
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		},
	}
}

func refused(t *testing.T, err error, want string) {
	t.Helper()
	const denial = `admission webhook "webhook.cert-manager.io" denied the request: `
	if err == nil || !strings.HasPrefix(err.Error(), denial) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s...%s", err, denial, want)
	}
}
