package cluster_test

import (
	"errors"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/issuing/signer/vault/vaulttest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/controllermanager"
)

// With the rights of the manifests and without an inventory, a Revocation is passed on.
func TestPassOn(t *testing.T) {
	w := startWith(t, "*", "issuers", "certificaterequests", "certificaterequests-approver")
	cfg := w.config(t)
	cfg.Controllers = controllermanager.Selection{"*", "issuers", "certificaterequests", "certificaterequests-approver"}
	cfg.CertManager.Vault.AllowLoopback = true
	run(t, cfg)
	// No pod serves the webhook.
	webhooks, all := w.admin.AdmissionregistrationV1(), metav1.ListOptions{}
	if err := errors.Join(webhooks.ValidatingWebhookConfigurations().DeleteCollection(t.Context(), metav1.DeleteOptions{}, all),
		webhooks.MutatingWebhookConfigurations().DeleteCollection(t.Context(), metav1.DeleteOptions{}, all)); err != nil {
		t.Fatal(err)
	}
	kinds, err := controllermanager.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.New(w.Admin(t), client.Options{Scheme: kinds})
	if err != nil {
		t.Fatal(err)
	}
	csr, err := pki.NewRequest(pki.Subject{DNSNames: []string{"web.example.com"}}, apitest.NewKey(t))
	if err != nil {
		t.Fatal(err)
	}
	vault := vaulttest.Start(t)
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }
	cr := &cmv1.CertificateRequest{ObjectMeta: named("web"), Spec: cmv1.CertificateRequestSpec{
		IssuerRef: cmmeta.IssuerReference{Name: "vault"}, Request: csr, Duration: &metav1.Duration{Duration: time.Hour},
	}}
	for _, object := range []client.Object{
		&corev1.Secret{ObjectMeta: named("role"), Data: map[string][]byte{"id": []byte("secret-id")}},
		&cmv1.Issuer{ObjectMeta: named("vault"), Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{Vault: &cmv1.VaultIssuer{
			Server: vault.URL, Path: "pki/sign/web", CABundle: vault.Bundle(),
			Auth: cmv1.VaultAuth{AppRole: &cmv1.VaultAppRole{Path: "approle", RoleId: "r", SecretRef: cmmeta.SecretKeySelector{
				LocalObjectReference: cmmeta.LocalObjectReference{Name: "role"}, Key: "id",
			}}},
		}}}},
		cr,
	} {
		apitest.Eventually(t, "no webhook is called any more", func() bool { return api.Create(t.Context(), object) == nil })
	}
	apitest.Eventually(t, "the certificate is issued", func() bool {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(cr), cr); err != nil {
			t.Fatal(err)
		}
		return len(cr.Status.Certificate) > 0
	})
	cert, err := pki.ParseFirst(cr.Status.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	r := &v1alpha1.Revocation{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: v1alpha1.RevocationSpec{
		Reason: "KeyCompromise", Certificates: []v1alpha1.RevokedCertificate{{PEM: string(pki.EncodeCertificates(cert))}},
	}}
	if err := api.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "it is passed on", func() bool {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(r), r); err != nil {
			t.Fatal(err)
		}
		return meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.RevocationPassedOn)
	})
	if got := vault.Revoked(); len(got) != 1 {
		t.Errorf("the CA has revoked %q", got)
	}
}
