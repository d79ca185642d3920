package cluster_test

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/run/cluster"
	"github.com/certplane/certplane/internal/run/server"
)

// In front of a server that does not know the ACME server, the webhook lets only that
// one write orders. While the webhook is away, nobody else can write any.
func TestWebhookOfACMEObjects(t *testing.T) {
	w := startIn(t, apitest.Start(t, func(c *server.Config) {
		c.Controllers = []string{}
		c.Admission.DisabledPlugins = []string{"ACMEServer"}
	}), "*")
	writes := rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupName}, Verbs: []string{"create", "patch"}, Resources: []string{"acmeaccounts", "acmeorders", "acmeorders/status"}}
	serves := rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupName}, Verbs: []string{"serve"}, Resources: []string{"acmeendpoints"}, ResourceNames: []string{"corp"}}
	w.Grant(t, "stranger", writes)
	w.Grant(t, "acme", writes, serves)
	stranger, acme := connect(t, w.As(t, "stranger")), connect(t, w.As(t, "acme"))
	order := func() *v1alpha1.AcmeOrder {
		return &v1alpha1.AcmeOrder{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "o"}, Spec: v1alpha1.AcmeOrderSpec{
			Endpoint: "corp", Account: "a", Profile: "server", Identifiers: []v1alpha1.AcmeIdentifier{{Type: "dns", Value: "a.corp.example"}},
		}}
	}
	address := apitest.FreeAddress(t)
	w.reachWebhook(t, address)
	apitest.Eventually(t, "nobody else writes while the webhook is away", func() bool {
		err := stranger.Create(t.Context(), order(), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "failed calling webhook")
	})
	if err := acme.Create(t.Context(), order()); err != nil {
		t.Errorf("the ACME server, while the webhook is away: %v", err)
	}

	cfg := w.config(t)
	cfg.Webhook.Serve, cfg.Webhook.BindAddress = "Always", address
	run(t, cfg)
	const want = `needs the verb "serve" on acmeendpoints "corp" of certplane.dev`
	apitest.Eventually(t, "the webhook refuses an order", func() bool {
		err := stranger.Create(t.Context(), order(), client.DryRunAll)
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), want)
	})
	state := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"state":"valid"}}`))
	if err := stranger.Status().Patch(t.Context(), order(), state); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("the status: %v", err)
	}
	if err := acme.Status().Patch(t.Context(), order(), state); err != nil {
		t.Errorf("the ACME server writes the status: %v", err)
	}
	account := func() *v1alpha1.AcmeAccount {
		return &v1alpha1.AcmeAccount{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1alpha1.AcmeAccountSpec{
			Endpoint: "corp", ServiceAccount: v1alpha1.AcmeServiceAccount{Namespace: "default", Name: "web"},
		}}
	}
	if err := stranger.Create(t.Context(), account()); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("an account: %v", err)
	}
	if err := acme.Create(t.Context(), account()); err != nil {
		t.Errorf("the ACME server makes an account: %v", err)
	}
}

// All processes of the ACME server have one certificate, of a CA of its own, which they keep
// in a Secret by the rights that the manifests give.
func TestACMECertificate(t *testing.T) {
	changed := func(cfg *cluster.Config) {
		cfg.ACMEServer.Listen, cfg.ACMEServer.ExternalURL = apitest.FreeAddress(t), "https://acme.example.com"
		cfg.Webhook.Serve = "Never"
	}
	w := startInWith(t, apitest.Start(t, func(c *server.Config) { c.Controllers = []string{} }), changed)
	var shown []*x509.Certificate
	for range 2 {
		cfg := w.config(t)
		changed(&cfg)
		run(t, cfg)
		apitest.Eventually(t, "clients are answered", func() bool {
			c, err := tls.Dial("tcp", cfg.ACMEServer.Listen, &tls.Config{ServerName: "acme.example.com", InsecureSkipVerify: true})
			if err != nil {
				return false
			}
			defer c.Close()
			shown = append(shown, c.ConnectionState().PeerCertificates[0])
			return true
		})
	}
	if !shown[0].Equal(shown[1]) || shown[0].VerifyHostname("acme.example.com") != nil {
		t.Errorf("the processes show %v of %s and %v of %s", shown[0].DNSNames, shown[0].Issuer, shown[1].DNSNames, shown[1].Issuer)
	}
	secret, err := w.admin.CoreV1().Secrets("certplane-system").Get(t.Context(), "certplane-acme-server", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(secret.Data["ca.crt"])
	if _, err := shown[0].Verify(x509.VerifyOptions{Roots: roots}); err != nil {
		t.Error(err)
	}
}
