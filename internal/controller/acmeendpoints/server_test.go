package acmeendpoints_test

import (
	"crypto/rand"
	"encoding/base64"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/apitest/acmetest"
	"github.com/certplane/certplane/internal/controller/acmeendpoints"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/server"
)

const (
	url         = "https://acme.example:8443"
	fingerprint = "SHA256:00ff"
)

// run runs the controller against a server that does not run it.
func run(t *testing.T, server acmeendpoints.Server, options ...acmetest.Option) *acmetest.World {
	t.Helper()
	w := acmetest.New(t, apitest.Start(t, without), options...)
	admin := w.Server.Admin(t)
	mgr, err := ctrl.NewManager(admin, ctrl.Options{Scheme: w.Objects.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	if server.ExternalURL != "" {
		server.Trust = func() (string, []byte) { return fingerprint, admin.CAData }
	}
	server.Requester = request.ServiceAccount(rights.ServeNamespace, rights.ServeACMEOrders.Account).Username
	server.Reader = request.ServiceAccount(rights.ServeNamespace, rights.ACMEServerAccount).Username
	err = acmeendpoints.Add(mgr, acmeendpoints.Config{Client: w.Objects, Bundles: mgr.GetCache(), Server: server, Versions: kinds.ServerResourcesForGroupVersionWithContext, Rand: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	apitest.Work(t, mgr)
	return w
}

func without(c *server.Config) { c.Controllers = append(c.Controllers, "-"+acmeendpoints.Name) }

// says waits for a condition of an object.
func says(w *acmetest.World, o client.Object, conditions func() []metav1.Condition, kind string, status metav1.ConditionStatus, reason string) {
	w.Helper()
	var last *metav1.Condition
	apitest.Eventually(w, o.GetName()+" is "+kind+" "+string(status)+" "+reason, func() bool {
		if err := w.Objects.Get(w.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			w.Fatal(err)
		}
		last = meta.FindStatusCondition(conditions(), kind)
		return last != nil && last.Status == status && last.Reason == reason
	})
}

// Endpoints and keys say whether they work, and what is missing.
func TestConditions(t *testing.T) {
	w := run(t, acmeendpoints.Server{ExternalURL: url, EverythingIsApproved: true}, func(e *v1alpha1.AcmeEndpoint, _ *v1alpha1.AcmeExternalKey) {
		e.Spec.Profiles = append(e.Spec.Profiles, *e.Spec.Profiles[0].DeepCopy())
		e.Spec.Profiles[1].Name, e.Spec.Profiles[1].Signer, e.Spec.Profiles[1].Issuer = "mesh", nil, &v1alpha1.AcmeIssuer{Group: "cert-manager.io", Kind: "Issuer", Name: "mesh"}
	})
	endpoint, key := w.Endpoint, w.Key
	ofEndpoint := func() []metav1.Condition { return endpoint.Status.Conditions }
	ofKey := func() []metav1.Condition { return key.Status.Conditions }
	says(w, endpoint, ofEndpoint, v1alpha1.Ready, metav1.ConditionTrue, "Ready")
	says(w, endpoint, ofEndpoint, "ApprovalEnforced", metav1.ConditionFalse, "EverythingIsApproved")
	says(w, endpoint, ofEndpoint, "BackendsReady", metav1.ConditionTrue, "Ready")
	if endpoint.Status.Directory != url+"/acme/"+w.Namespace+"/directory" || endpoint.Status.Accounts != 1 || endpoint.Status.Trust == nil || endpoint.Status.Trust.Fingerprint != fingerprint {
		t.Errorf("the status is %+v", endpoint.Status)
	}

	published := func() string {
		bundle := &certificatesv1.ClusterTrustBundle{}
		if err := w.Objects.Get(t.Context(), client.ObjectKey{Name: endpoint.Status.Trust.Bundle}, bundle); err != nil {
			t.Fatal(err)
		}
		return bundle.Spec.TrustBundle
	}
	if bundle := endpoint.Status.Trust.Bundle; bundle != "certplane.dev:acme:"+w.Namespace || !strings.Contains(published(), strings.TrimSpace(string(w.Server.Admin(t).CAData))) {
		t.Errorf("the bundle %q lacks the root of the server", bundle)
	}
	stored := &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: endpoint.Status.Trust.Bundle}}
	apitest.Eventually(t, "the roots of the signer are published", func() bool {
		of := &certificatesv1.ClusterTrustBundleList{}
		return w.Objects.List(t.Context(), of, client.MatchingFields{"spec.signerName": w.SignerName}) == nil && len(of.Items) > 0
	})
	apitest.Eventually(t, "the bundle has the root of the signer, too", func() bool { return strings.Count(published(), "BEGIN CERTIFICATE") == 2 })
	ours := published()
	w.Change(stored, func() { stored.Spec.TrustBundle = string(w.Server.Admin(t).CAData) + "\n" })
	apitest.Eventually(t, "the bundle is as it was", func() bool { return published() == ours })

	signer := &v1alpha1.Signer{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}}
	w.Change(signer, func() { signer.Spec.CA = v1alpha1.SignerCA{Secret: &v1alpha1.SecretCA{Name: "nosuch"}} })
	says(w, endpoint, ofEndpoint, "BackendsReady", metav1.ConditionFalse, "SignerNotReady")

	says(w, key, ofKey, v1alpha1.Ready, metav1.ConditionFalse, "SecretForbidden")
	secret := &corev1.Secret{}
	if err := w.Objects.Get(t.Context(), client.ObjectKey{Namespace: w.Namespace, Name: key.Spec.Secret.Name}, secret); err != nil {
		t.Fatal(err)
	}
	hmac, err := base64.RawURLEncoding.DecodeString(string(secret.Data["hmac"]))
	if err != nil || len(hmac) != 32 || string(secret.Data["kid"]) != w.Namespace+".fleet" || string(secret.Data["url"]) != endpoint.Status.Directory {
		t.Errorf("the Secret has %d bytes, %q and %q (%v)", len(hmac), secret.Data["kid"], secret.Data["url"], err)
	}
	w.Allow("secrets", rights.ACMEServerAccount, rights.ServeNamespace, rights.ACMEConsent(acmetest.ServiceAccount, secret.Name)[rights.ACMEServerAccount]...)
	reader := request.ServiceAccount(rights.ServeNamespace, rights.ACMEServerAccount)
	apitest.Eventually(t, "the server knows who may read the Secret", func() bool {
		return w.Server.Allowed(t, reader.Username, reader.Groups, authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets", Namespace: w.Namespace, Name: secret.Name})
	})
	w.Change(key, func() { key.Spec.MaxAccounts = 1 })
	says(w, key, ofKey, v1alpha1.Ready, metav1.ConditionFalse, "UsedUp")
	w.Change(key, func() { key.Spec.MaxAccounts = 2 })
	says(w, key, ofKey, v1alpha1.Ready, metav1.ConditionTrue, "Ready")
	if key.Status.KID != w.Namespace+".fleet" || key.Status.Accounts != 1 {
		t.Errorf("the status is %+v", key.Status)
	}

	other := &v1alpha1.AcmeExternalKey{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "other"}, Spec: v1alpha1.AcmeExternalKeySpec{
		Endpoint: w.Namespace, ServiceAccount: "batch", Secret: v1alpha1.AcmeSecret{Name: secret.Name},
	}}
	w.Create(other)
	says(w, other, func() []metav1.Condition { return other.Status.Conditions }, v1alpha1.Ready, metav1.ConditionFalse, "TokenForbidden")

	if err := w.Objects.Delete(t.Context(), &v1alpha1.AcmeEndpoint{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}}); err != nil {
		t.Fatal(err)
	}
	says(w, key, ofKey, v1alpha1.Ready, metav1.ConditionFalse, "EndpointMissing")
	if uid := secret.UID; w.Objects.Get(t.Context(), client.ObjectKeyFromObject(secret), secret) != nil || secret.UID != uid {
		t.Error("the Secret was made anew")
	}
}
