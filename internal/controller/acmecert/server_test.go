package acmecert_test

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmeserver/listener"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/apitest/acmetest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/server"
)

const host, signerName = "acme.corp.example", "corp.example/acme-hosts"

// world is a server with an ACME server, whose certificate comes from a source.
type world struct {
	*acmetest.World
	address string
}

func start(t *testing.T, from listener.CertificateSettings) world {
	t.Helper()
	w := world{address: apitest.FreeAddress(t)}
	w.World = acmetest.New(t, apitest.Start(t, func(cfg *server.Config) {
		cfg.ACMEServer.Listen, cfg.ACMEServer.ExternalURL, cfg.ACMEServer.Certificate = w.address, "https://"+host, from
	}))
	return w
}

// shown returns the certificate that clients see, nil if there is none.
func (w world) shown() *x509.Certificate {
	c, err := (&tls.Dialer{Config: &tls.Config{ServerName: host, InsecureSkipVerify: true}}).DialContext(w.Context(), "tcp", w.address)
	if err != nil {
		return nil
	}
	defer c.Close()
	return c.(*tls.Conn).ConnectionState().PeerCertificates[0]
}

// rootsFor returns what a client that trusts the ClusterTrustBundle of the endpoint is
// told at roots.pem.
func (w world) rootsFor(bundle string) string {
	w.Helper()
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM([]byte(bundle)) {
		w.Fatal("the bundle is empty")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, ServerName: host}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(w.Context(), http.MethodGet, "https://"+w.address+"/acme/"+w.Namespace+"/roots.pem", http.NoBody)
	if err != nil {
		w.Fatal(err)
	}
	var answer *http.Response
	apitest.Eventually(w, "the listener is open, a moment after the endpoint is ready", func() bool {
		answer, err = (&http.Client{Transport: transport}).Do(request)
		return !errors.Is(err, syscall.ECONNREFUSED)
	})
	if err != nil {
		w.Fatalf("with the roots of the bundle: %v", err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		w.Fatalf("%d %s (%v)", answer.StatusCode, body, err)
	}
	return string(body)
}

// endpoint returns the endpoint once its condition Ready is as wanted, and names text.
func (w world) endpoint(status metav1.ConditionStatus, text string) *v1alpha1.AcmeEndpoint {
	w.Helper()
	e := &v1alpha1.AcmeEndpoint{}
	apitest.Eventually(w, "the endpoint is ready: "+string(status)+" "+text, func() bool {
		if err := w.Objects.Get(w.Context(), client.ObjectKey{Name: w.Namespace}, e); err != nil {
			w.Fatal(err)
		}
		ready := meta.FindStatusCondition(e.Status.Conditions, v1alpha1.Ready)
		return ready != nil && ready.Status == status && strings.Contains(ready.Message, text)
	})
	return e
}

// agree checks that fingerprint, ClusterTrustBundle and roots.pem tell of the same roots, of
// which the first has issued the certificate.
func (w world) agree() {
	w.Helper()
	e := w.endpoint(metav1.ConditionTrue, "")
	apitest.Eventually(w, "fingerprint, bundle and roots.pem agree", func() bool {
		bundle := &certificatesv1.ClusterTrustBundle{}
		if w.Objects.Get(w.Context(), client.ObjectKeyFromObject(e), e) != nil || e.Status.Trust == nil ||
			w.Objects.Get(w.Context(), client.ObjectKey{Name: e.Status.Trust.Bundle}, bundle) != nil {
			return false
		}
		roots, err := pki.ParseCertificates([]byte(w.rootsFor(bundle.Spec.TrustBundle)))
		if err != nil || len(roots) == 0 {
			w.Fatalf("roots.pem: %v", err)
		}
		digest := sha256.Sum256(roots[0].Raw)
		return e.Status.Trust.Fingerprint == "SHA256:"+hex.EncodeToString(digest[:]) && w.shown().CheckSignatureFrom(roots[0]) == nil &&
			!slices.ContainsFunc(roots, func(root *x509.Certificate) bool {
				return !strings.Contains(bundle.Spec.TrustBundle, strings.TrimSpace(string(pki.EncodeCertificates(root))))
			})
	})
}

// requested returns the next request of the server but those in seen.
func (w world) requested(seen ...string) *certificatesv1.CertificateSigningRequest {
	w.Helper()
	var found *certificatesv1.CertificateSigningRequest
	apitest.Eventually(w, "there is a request", func() bool {
		list := &certificatesv1.CertificateSigningRequestList{}
		if err := w.Objects.List(w.Context(), list); err != nil {
			w.Fatal(err)
		}
		for i := range list.Items {
			if csr := &list.Items[i]; csr.Spec.SignerName == signerName && !slices.Contains(seen, csr.Name) {
				found = csr
			}
		}
		return found != nil
	})
	return found
}

func (w world) renew() {
	w.Helper()
	if err := w.Objects.Delete(w.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: rights.ServeNamespace, Name: rights.ACMECertificate}}); err != nil {
		w.Fatal(err)
	}
}

// A signer issues the certificate for a request that is approved like any other. Until
// then, everything else works, and says what is missing. The next ones need no person if a
// policy approves them, and are used without a restart.
func TestSigner(t *testing.T) {
	w := start(t, listener.CertificateSettings{Signer: signerName})
	w.Create(&v1alpha1.Signer{ObjectMeta: metav1.ObjectMeta{Name: "acme-hosts"}, Spec: v1alpha1.SignerSpec{
		SignerName: signerName, Requests: []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests}, CA: v1alpha1.SignerCA{Generated: &v1alpha1.GeneratedCA{}},
		Profile: v1alpha1.SignerProfile{Names: v1alpha1.NamesProfile{DNSNames: "request.dnsNames"}, Usages: []string{"digital signature", "server auth"}},
	}})
	first := w.requested()
	if w.shown() != nil {
		t.Error("there is a certificate without an approval")
	}
	w.endpoint(metav1.ConditionFalse, "the approval of the CertificateSigningRequest "+first.Name)
	if want := "system:serviceaccount:kube-system:acme-certificate"; first.Spec.Username != want {
		t.Errorf("the request is of %s", first.Spec.Username)
	}
	admin := apitest.Client(t, w.Server.Admin(t))
	apitest.Decide(t, admin, first, certificatesv1.CertificateApproved)
	w.agree()
	before := w.shown()
	if err := before.VerifyHostname(host); err != nil {
		t.Error(err)
	}

	w.renew()
	second := w.requested(first.Name)
	apitest.Decide(t, admin, second, certificatesv1.CertificateDenied)
	secret := &corev1.Secret{}
	apitest.Eventually(t, "the next key is kept", func() bool {
		return w.Objects.Get(t.Context(), client.ObjectKey{Namespace: rights.ServeNamespace, Name: rights.ACMECertificate}, secret) == nil && len(secret.Data["next.key"]) > 0
	})
	if !w.shown().Equal(before) {
		t.Error("the former certificate is not served while the next one is denied")
	}

	account := v1alpha1.RequesterLists{ServiceAccounts: []string{rights.ServeNamespace + "/" + rights.KeepACMECertificate.Account}}
	w.Create(&v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: "acme-server"}, Spec: v1alpha1.CertificatePolicySpec{
		Effect: v1alpha1.PolicyAllow,
		Match:  v1alpha1.PolicyMatch{Signers: []string{signerName}, Requesters: &v1alpha1.RequesterMatch{RequesterLists: account}},
		Certificate: &v1alpha1.CertificateConditions{
			Names:  &v1alpha1.NameConditions{DNS: &v1alpha1.DNSConditions{Patterns: []string{host}}},
			Usages: &v1alpha1.UsageConditions{Allowed: []string{"digital signature", "server auth"}},
		},
	}})
	apitest.Eventually(t, "the policy is in force", func() bool {
		policy := &v1alpha1.CertificatePolicy{}
		return w.Objects.Get(t.Context(), client.ObjectKey{Name: "acme-server"}, policy) == nil && meta.IsStatusConditionTrue(policy.Status.Conditions, v1alpha1.Ready)
	})
	w.renew()
	apitest.Eventually(t, "the next certificate is served", func() bool { return !w.shown().Equal(before) })
	w.agree()
}

// An issuer of cert-manager.io does so, too, for a CertificateRequest.
func TestIssuer(t *testing.T) {
	w := start(t, listener.CertificateSettings{Issuer: &listener.IssuerSettings{Name: "corp"}, Names: []string{"127.0.0.1"}})
	key := apitest.NewKey(t)
	keyPEM, err := pki.EncodePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.NewRoot(pki.UnrecordedSigning, "corp", key, pki.DefaultRootLifetime, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	object := metav1.ObjectMeta{Namespace: rights.ServeNamespace, Name: "corp"}
	w.Create(&corev1.Secret{ObjectMeta: object, Type: corev1.SecretTypeTLS, Data: map[string][]byte{"tls.crt": pki.EncodeCertificates(ca.Certificate()), "tls.key": keyPEM}})
	w.Create(&cmv1.Issuer{ObjectMeta: object, Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{CA: &cmv1.CAIssuer{SecretName: "corp"}}}})
	w.agree()
	if err := w.shown().VerifyHostname("127.0.0.1"); err != nil {
		t.Error(err)
	}
	left := &cmv1.CertificateRequestList{}
	apitest.Eventually(t, "the answered request is gone", func() bool {
		return w.Objects.List(t.Context(), left, client.InNamespace(rights.ServeNamespace)) == nil && len(left.Items) == 0
	})
}

// A damaged Secret with a CA of the server's own is left alone: no host trusts another
// CA. The endpoint says what is wrong, and a restored Secret goes on.
func TestDamagedOwnCA(t *testing.T) {
	w := start(t, listener.CertificateSettings{Self: true})
	w.agree()
	before := w.shown()
	secrets := &corev1.SecretList{}
	if err := w.Objects.List(t.Context(), secrets, client.InNamespace("kube-system")); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(secrets.Items, func(s corev1.Secret) bool { return len(s.Data["source"]) > 0 && len(s.Data["signing-ca.key"]) > 0 })
	whole := secrets.Items[i].DeepCopy()
	for _, damage := range []func(map[string][]byte){
		func(data map[string][]byte) { data["tls.key"] = data["tls.key"][:30] },
		func(data map[string][]byte) { data["tls.key"], data["signing-ca.key"] = []byte("x"), []byte("x") },
		func(data map[string][]byte) { data["tls.key"] = []byte("x"); delete(data, "source") },
	} {
		damaged := whole.DeepCopy()
		damage(damaged.Data)
		if err := w.Objects.Update(t.Context(), damaged); err != nil {
			t.Fatal(err)
		}
		w.Server.Restart(t)
		w.Connect()
		w.endpoint(metav1.ConditionFalse, "to be restored")
		whole.ResourceVersion = damaged.ResourceVersion
		if err := w.Objects.Update(t.Context(), whole); err != nil {
			t.Fatalf("the Secret was written: %v", err)
		}
		w.agree()
	}
	if !w.shown().Equal(before) {
		t.Error("after the Secret was restored, another certificate is served")
	}
}

// While a certificate is served, the endpoint says that the CA that issues the next one is
// damaged, though orders are taken.
func TestDamagedOwnCAWithCertificate(t *testing.T) {
	w := start(t, listener.CertificateSettings{Self: true})
	w.agree()
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: rights.ServeNamespace, Name: rights.ACMECertificate}
	update := func(change func(map[string][]byte)) {
		t.Helper()
		if err := w.Objects.Get(t.Context(), key, secret); err != nil {
			t.Fatal(err)
		}
		change(secret.Data)
		if err := w.Objects.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
	waits := func() *metav1.Condition {
		return meta.FindStatusCondition(w.endpoint(metav1.ConditionTrue, "").Status.Conditions, v1alpha1.AcmeCertificateWaits)
	}
	var whole []byte
	update(func(data map[string][]byte) { whole, data["signing-ca.key"] = data["signing-ca.key"], []byte("x") })
	apitest.Eventually(t, "the endpoint warns", func() bool {
		c := waits()
		return c != nil && strings.Contains(c.Message, "to be restored")
	})
	update(func(data map[string][]byte) { data["signing-ca.key"] = whole })
	apitest.Eventually(t, "it warns no more", func() bool { return waits() == nil })
}

// A CA of the server's own needs nobody. It stays when the server is started again.
func TestSelf(t *testing.T) {
	w := start(t, listener.CertificateSettings{Self: true})
	w.agree()
	before := w.shown()
	w.Server.Restart(t)
	w.Connect()
	apitest.Eventually(t, "clients are answered again", func() bool { return w.shown() != nil })
	if !w.shown().Equal(before) {
		t.Error("there is another certificate after a start")
	}
	w.agree()
}

// Hosts that know the root of a server whose certificate comes from elsewhere from now on
// are shown it until its last certificate has ended.
func TestOtherSource(t *testing.T) {
	w := start(t, listener.CertificateSettings{Self: true})
	w.agree()
	e := w.endpoint(metav1.ConditionTrue, "")
	bundle := &certificatesv1.ClusterTrustBundle{}
	if err := w.Objects.Get(t.Context(), client.ObjectKey{Name: e.Status.Trust.Bundle}, bundle); err != nil {
		t.Fatal(err)
	}
	before, err := pki.ParseCertificates([]byte(w.rootsFor(bundle.Spec.TrustBundle)))
	if err != nil {
		t.Fatal(err)
	}
	w.Create(&v1alpha1.Signer{ObjectMeta: metav1.ObjectMeta{Name: "acme-hosts"}, Spec: v1alpha1.SignerSpec{
		SignerName: signerName, Requests: []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests}, CA: v1alpha1.SignerCA{Generated: &v1alpha1.GeneratedCA{}},
		Profile: v1alpha1.SignerProfile{Names: v1alpha1.NamesProfile{DNSNames: "request.dnsNames"}, Usages: []string{"digital signature", "server auth"}},
	}})
	w.Server.Config.ACMEServer.Certificate = listener.CertificateSettings{Signer: signerName}
	w.Server.Restart(t)
	w.Connect()
	apitest.Decide(t, apitest.Client(t, w.Server.Admin(t)), w.requested(), certificatesv1.CertificateApproved)
	apitest.Eventually(t, "the certificate of the signer is served", func() bool {
		shown := w.shown()
		return shown != nil && shown.CheckSignatureFrom(before[0]) != nil
	})
	apitest.Eventually(t, "the bundle has the root of the signer", func() bool {
		if err := w.Objects.Get(t.Context(), client.ObjectKeyFromObject(bundle), bundle); err != nil {
			t.Fatal(err)
		}
		roots, err := pki.ParseCertificates([]byte(bundle.Spec.TrustBundle))
		return err == nil && slices.ContainsFunc(roots, func(root *x509.Certificate) bool { return w.shown().CheckSignatureFrom(root) == nil })
	})
	w.agree()
	now, err := pki.ParseCertificates([]byte(w.rootsFor(bundle.Spec.TrustBundle)))
	if err != nil || !slices.ContainsFunc(now, before[0].Equal) {
		t.Errorf("roots.pem has lost the former root (%v)", err)
	}
	if !strings.Contains(bundle.Spec.TrustBundle, strings.TrimSpace(string(pki.EncodeCertificates(before[0])))) {
		t.Error("the ClusterTrustBundle has lost the former root")
	}
}
