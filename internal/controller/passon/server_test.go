package passon_test

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmetest"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/issuing/signer/vault/vaulttest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/controllermanager"
	"github.com/certplane/certplane/internal/run/server"
)

const namespace = "default"

// world is a server with issuers of several types.
type world struct {
	*apitest.Server
	api   client.Client
	vault *vaulttest.Server
	acme  *acmetest.Server
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{vault: vaulttest.Start(t), acme: acmetest.Start(t, acmetest.Options{Authorized: true})}
	w.Server = apitest.Start(t, func(cfg *server.Config) {
		cfg.CertManager.Vault.AllowLoopback, cfg.ACME.AllowLoopback = true, true
	})
	w.connect(t)
	w.create(t, &corev1.Secret{ObjectMeta: named("role"), Data: map[string][]byte{"id": []byte("secret-id")}})
	w.issuer(t, "vault", cmv1.IssuerConfig{Vault: &cmv1.VaultIssuer{
		Server: w.vault.URL, Path: "pki/sign/web", CABundle: w.vault.Bundle(),
		Auth: cmv1.VaultAuth{AppRole: &cmv1.VaultAppRole{Path: "approle", RoleId: "r", SecretRef: selector("role", "id")}},
	}})
	w.issuer(t, "acme", cmv1.IssuerConfig{ACME: &acmev1.ACMEIssuer{
		Server: w.acme.Directory(), CABundle: w.acme.CABundle(), PrivateKey: selector("account", ""),
		Solvers: []acmev1.ACMEChallengeSolver{{HTTP01: &acmev1.ACMEChallengeSolverHTTP01{Ingress: &acmev1.ACMEChallengeSolverHTTP01Ingress{}}}},
	}})
	w.create(t, w.ClientCASecret(t, namespace, "ca"))
	w.issuer(t, "ca", cmv1.IssuerConfig{CA: &cmv1.CAIssuer{SecretName: "ca"}})
	return w
}

func (w *world) connect(t *testing.T) {
	t.Helper()
	kinds, err := controllermanager.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	if w.api, err = client.New(w.Admin(t), client.Options{Scheme: kinds}); err != nil {
		t.Fatal(err)
	}
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }

func selector(name, key string) cmmeta.SecretKeySelector {
	return cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: name}, Key: key}
}

func (w *world) create(t *testing.T, object client.Object) {
	t.Helper()
	if err := w.api.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

func (w *world) issuer(t *testing.T, name string, config cmv1.IssuerConfig) {
	t.Helper()
	w.create(t, &cmv1.Issuer{ObjectMeta: named(name), Spec: cmv1.IssuerSpec{IssuerConfig: config}})
}

// issue returns a certificate of an issuer, by a request with this name.
func (w *world) issue(t *testing.T, issuer, name string) *x509.Certificate {
	t.Helper()
	dns := name + ".example.com"
	csr, err := pki.NewRequest(pki.Subject{DNSNames: []string{dns}}, apitest.NewKey(t))
	if err != nil {
		t.Fatal(err)
	}
	cr := &cmv1.CertificateRequest{ObjectMeta: named(name), Spec: cmv1.CertificateRequestSpec{
		IssuerRef: cmmeta.IssuerReference{Name: issuer}, Request: csr, Duration: &metav1.Duration{Duration: 24 * time.Hour},
	}}
	w.create(t, cr)
	apitest.Eventually(t, "the request "+name+" is answered", func() bool {
		if err := w.api.Get(t.Context(), client.ObjectKeyFromObject(cr), cr); err != nil {
			t.Fatal(err)
		}
		return len(cr.Status.Certificate) > 0
	})
	cert, err := pki.ParseFirst(cr.Status.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func byFingerprint(certs ...*x509.Certificate) (all []v1alpha1.RevokedCertificate) {
	for _, cert := range certs {
		all = append(all, v1alpha1.RevokedCertificate{Fingerprint: pki.Fingerprint(cert)})
	}
	return all
}

func (w *world) revoke(t *testing.T, name string, spec v1alpha1.RevocationSpec) {
	t.Helper()
	if spec.Reason == "" {
		spec.Reason = "KeyCompromise"
	}
	w.create(t, &v1alpha1.Revocation{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})
}

func (w *world) condition(t *testing.T, name string) *metav1.Condition {
	t.Helper()
	r := &v1alpha1.Revocation{}
	if err := w.api.Get(t.Context(), client.ObjectKey{Name: name}, r); err != nil {
		t.Fatal(err)
	}
	return meta.FindStatusCondition(r.Status.Conditions, v1alpha1.RevocationPassedOn)
}

// becomes waits until the condition PassedOn of a Revocation has a reason, and returns it.
func (w *world) becomes(t *testing.T, name, reason string) *metav1.Condition {
	t.Helper()
	var c *metav1.Condition
	apitest.Eventually(t, name+" has the reason "+reason, func() bool {
		c = w.condition(t, name)
		return c != nil && c.Reason == reason
	})
	if want := reason == "PassedOn"; (c.Status == metav1.ConditionTrue) != want {
		t.Errorf("%s: %+v", name, c)
	}
	return c
}

// event waits for an Event.
func (w *world) event(t *testing.T, kind, name, reason string) {
	t.Helper()
	apitest.Eventually(t, "the Event "+reason+" on the "+kind+" "+name, func() bool {
		var all eventsv1.EventList
		if err := w.api.List(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(all.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Kind == kind && e.Regarding.Name == name && e.Reason == reason
		})
	})
}

func octets(cert *x509.Certificate) string {
	return strings.ReplaceAll(fmt.Sprintf("% x", cert.SerialNumber.Bytes()), " ", ":")
}

func TestVault(t *testing.T) {
	w := newWorld(t)
	one, two, skipped := w.issue(t, "vault", "one"), w.issue(t, "vault", "two"), w.issue(t, "vault", "skipped")
	own := w.issue(t, "ca", "own")

	w.revoke(t, "skip", v1alpha1.RevocationSpec{Certificates: byFingerprint(skipped), Upstream: v1alpha1.UpstreamSkip})
	w.revoke(t, "own", v1alpha1.RevocationSpec{Certificates: byFingerprint(own)})
	w.revoke(t, "by-fingerprint", v1alpha1.RevocationSpec{Certificates: byFingerprint(one, own)})
	if c := w.becomes(t, "by-fingerprint", "PassedOn"); !strings.Contains(c.Message, "revoked 1 certificates") {
		t.Errorf("%+v", c)
	}
	w.revoke(t, "by-selection", v1alpha1.RevocationSpec{
		Selection: &v1alpha1.RevocationSelection{Namespaces: []string{namespace}}, AtMost: 10,
	})
	w.becomes(t, "by-selection", "PassedOn")
	if got, want := w.vault.Revoked(), []string{octets(one), octets(two)}; !slices.Equal(got, want) {
		t.Errorf("the server has revoked %q, want %q", got, want)
	}
	for _, name := range []string{"skip", "own"} {
		if c := w.condition(t, name); c != nil {
			t.Errorf("%s has the condition %+v", name, c)
		}
	}
	if n := w.vault.Count("/v1/pki/revoke"); n != 2 {
		t.Errorf("%d calls", n)
	}

	// Once more, after a restart too, is a success; the CA is not told of what is done.
	serial := v1alpha1.RevokedCertificate{SerialNumber: "0" + one.SerialNumber.Text(16), AuthorityKeyID: fmt.Sprintf("%X", one.AuthorityKeyId)}
	if len(one.AuthorityKeyId) == 0 {
		t.Fatal("the certificate has no authority key identifier")
	}
	w.Restart(t)
	w.connect(t)
	w.revoke(t, "again", v1alpha1.RevocationSpec{Certificates: []v1alpha1.RevokedCertificate{serial}})
	w.becomes(t, "again", "PassedOn")
	if n := w.vault.Count("/v1/pki/revoke"); n != 3 {
		t.Errorf("%d calls", n)
	}
	// Who uses the certificates learns of it too.
	w.event(t, "Revocation", "again", "PassedOn")
	w.event(t, "Revocation", "by-fingerprint", "Revoked")
	w.event(t, "Revocation", "by-fingerprint", "NotListed")
	w.event(t, "CertificateRequest", "one", "Revoked")
	w.event(t, "CertificateRequest", "two", "Revoked")

	w.vault.With(func(s *vaulttest.State) {
		s.Answer = func(rw http.ResponseWriter, _ *http.Request, c vaulttest.Call) bool {
			if strings.HasSuffix(c.Path, "/revoke") {
				vaulttest.Fail(rw, http.StatusForbidden, "1 error occurred: permission denied")
			}
			return strings.HasSuffix(c.Path, "/revoke")
		}
	})
	w.revoke(t, "refused", v1alpha1.RevocationSpec{Certificates: byFingerprint(two)})
	if c := w.becomes(t, "refused", "NotPassedOn"); !strings.Contains(c.Message, "issuers.cert-manager.io/default.vault: ") || !strings.Contains(c.Message, "permission denied") {
		t.Errorf("%+v", c)
	}
}

func TestACME(t *testing.T) {
	w := newWorld(t)
	stored, given, gone := w.issue(t, "acme", "stored"), w.issue(t, "acme", "given"), w.issue(t, "acme", "gone")
	for _, name := range []string{"given", "gone"} {
		if err := w.api.Delete(t.Context(), &cmv1.CertificateRequest{ObjectMeta: named(name)}); err != nil {
			t.Fatal(err)
		}
	}
	w.revoke(t, "gone", v1alpha1.RevocationSpec{Certificates: byFingerprint(gone, stored)})
	if c := w.becomes(t, "gone", "NoCertificate"); !strings.Contains(c.Message, "give it as pem: issuers.cert-manager.io/default.acme") {
		t.Errorf("%+v", c)
	}
	// Let's Encrypt does not accept this reason.
	w.revoke(t, "given", v1alpha1.RevocationSpec{Reason: "PrivilegeWithdrawn", Certificates: []v1alpha1.RevokedCertificate{{PEM: string(pki.EncodeCertificates(given))}}})
	w.becomes(t, "given", "PassedOn")
	w.revoke(t, "again", v1alpha1.RevocationSpec{Certificates: byFingerprint(stored)})
	w.becomes(t, "again", "PassedOn")
	want := map[string]int{stored.SerialNumber.Text(16): 1, given.SerialNumber.Text(16): 0}
	if got := w.acme.Revoked(); len(got) != 2 || got[stored.SerialNumber.Text(16)] != 1 || got[given.SerialNumber.Text(16)] != 0 {
		t.Errorf("the server has revoked %v, want %v", got, want)
	}
}
