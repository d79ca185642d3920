package cluster_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/run/server"
)

// In front of a server that does not know cert-manager.io, the webhook defaults
// and refuses what our own server does, in the same words.
func TestWebhook(t *testing.T) {
	chosen := []string{"*", "issuers", "certificaterequests"}
	w := startIn(t, apitest.Start(t, func(c *server.Config) {
		c.Controllers = []string{}
		c.Admission.DisabledPlugins = []string{"CertManager"}
	}), chosen...)
	cfg := w.config(t)
	cfg.Controllers, cfg.Webhook.BindAddress = chosen, apitest.FreeAddress(t)
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

// In front of a server that does not know Signers, the webhook refuses what our
// own server does. While the webhook is away, Signers can be written.
func TestWebhookOfSigners(t *testing.T) {
	w := startIn(t, apitest.Start(t, func(c *server.Config) {
		c.Controllers = []string{}
		c.Admission.DisabledPlugins = []string{"Signer"}
	}), "*")
	admin := connect(t, w.Admin(t))
	if err := admin.Create(t.Context(), newSigner("early", "1")); err != nil {
		t.Fatalf("before there is a webhook: %v", err)
	}

	cfg := w.config(t)
	cfg.Webhook.Serve, cfg.Webhook.BindAddress = "Always", apitest.FreeAddress(t)
	run(t, cfg)
	w.reachWebhook(t, cfg.Webhook.BindAddress)
	const want = `admission webhook "webhook.certplane.dev" denied the request: Signer.certplane.dev "bad" is invalid: spec.profile.names.uris: Invalid value`
	apitest.Eventually(t, "a bad Signer is refused", func() bool {
		err := admin.Create(t.Context(), newSigner("bad", "1"), client.DryRunAll)
		return apierrors.IsInvalid(err) && strings.HasPrefix(err.Error(), want)
	})
	if err := admin.Create(t.Context(), newSigner("good", "['a:b']")); err != nil {
		t.Error(err)
	}
	second := newSigner("second", "['a:b']")
	second.Spec.SignerName = "example.com/good"
	if err := admin.Create(t.Context(), second); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "the Signer good declares it already") {
		t.Errorf("a second one of a name: %v", err)
	}
	early := newSigner("early", "1")
	if err := admin.Patch(t.Context(), early, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))); err != nil {
		t.Errorf("a label of a bad one: %v", err)
	}
}

// newSigner returns a Signer that is valid if its expression is.
func newSigner(name, uris string) *v1alpha1.Signer {
	return &v1alpha1.Signer{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.SignerSpec{
			SignerName: "example.com/" + name, Requests: []v1alpha1.RequestKind{v1alpha1.PodCertificateRequests},
			CA:      v1alpha1.SignerCA{Generated: &v1alpha1.GeneratedCA{}},
			Profile: v1alpha1.SignerProfile{Names: v1alpha1.NamesProfile{URIs: v1alpha1.CEL(uris)}, Usages: []string{"digital signature"}},
		},
	}
}

const webhookConfiguration = "certplane-webhook.certplane-system"

// reachWebhook makes the server call the installed webhooks at an address,
// without a Service.
func (w world) reachWebhook(t *testing.T, address string) {
	t.Helper()
	const name = webhookConfiguration
	hooks := w.admin.AdmissionregistrationV1()
	mutating, err := hooks.MutatingWebhookConfigurations().Get(t.Context(), name, metav1.GetOptions{})
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	for _, webhook := range mutating.Webhooks {
		patch := reachedAt(webhook.Name, "https://"+address+*webhook.ClientConfig.Service.Path)
		if _, err := hooks.MutatingWebhookConfigurations().Patch(t.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	validating, err := hooks.ValidatingWebhookConfigurations().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, webhook := range validating.Webhooks {
		patch := reachedAt(webhook.Name, "https://"+address+*webhook.ClientConfig.Service.Path)
		if _, err := hooks.ValidatingWebhookConfigurations().Patch(t.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func reachedAt(webhook, url string) []byte {
	return fmt.Appendf(nil, `{"webhooks":[{"name":%q,"clientConfig":{"service":null,"url":%q}}]}`, webhook, url)
}

// user returns a client for a user who has these permissions in
// cert-manager.io.
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
	if err := errors.Join(certmanager.AddToScheme(kinds), v1alpha1.AddToScheme(kinds)); err != nil {
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
