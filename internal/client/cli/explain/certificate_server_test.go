package explain_test

import (
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	verb "github.com/certplane/certplane/internal/client/cli/explain"
	"github.com/certplane/certplane/internal/client/explain"
)

func (w issuing) certificate(t *testing.T, name, secret, issuer string) {
	t.Helper()
	w.create(t, &cmv1.Certificate{ObjectMeta: named(name), Spec: cmv1.CertificateSpec{
		SecretName: secret, DNSNames: []string{name + ".example.com"}, IssuerRef: cmmeta.IssuerReference{Name: issuer},
		PrivateKey: &cmv1.CertificatePrivateKey{Algorithm: cmv1.ECDSAKeyAlgorithm},
	}})
}

// keystore makes a Certificate with a keystore, whose password is in a Secret.
func (w issuing) keystore(t *testing.T, name, secret, issuer, password, key string) {
	t.Helper()
	w.create(t, &cmv1.Certificate{ObjectMeta: named(name), Spec: cmv1.CertificateSpec{
		SecretName: secret, DNSNames: []string{name + ".example.com"}, IssuerRef: cmmeta.IssuerReference{Name: issuer},
		PrivateKey: &cmv1.CertificatePrivateKey{Algorithm: cmv1.ECDSAKeyAlgorithm},
		Keystores: &cmv1.CertificateKeystores{JKS: &cmv1.JKSKeystore{
			Create: true, PasswordSecretRef: cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: password}, Key: key},
		}},
	}})
}

// silent fails the test if text contains one of the parts.
func silent(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			t.Errorf("it says %q:\n%s", part, text)
		}
	}
}

// certificateBecomes waits until the verdict about a Certificate, without its
// name, begins with verdict.
func (w issuing) certificateBecomes(t *testing.T, name, verdict string) (e explain.CertificateExplanation, text string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Log(text)
		}
	}()
	apitest.Eventually(t, name+" "+verdict, func() bool {
		e, text = ask[explain.CertificateExplanation](t, verb.IssuedCertificate, w.Admin(t), name, time.Now())
		return strings.HasPrefix(e.Verdict, name+" "+verdict)
	})
	return e, text
}

// The explanation of a Certificate says what its certificate waits for, which
// other Certificates name its Secret, and when the issuance is tried again.
func TestCertificates(t *testing.T) {
	w := startIssuing(t)
	w.create(t, newIssuer("self", cmv1.IssuerConfig{SelfSigned: &cmv1.SelfSignedIssuer{}}))
	w.certificate(t, "web", "web-tls", "self")
	e, text := w.certificateBecomes(t, "web", "is ready: its certificate is valid until 20")
	if e.State != explain.CertificateReady || e.Revision != 1 || e.NotAfter == nil || e.RenewalTime == nil || e.RetryTime != nil {
		t.Errorf("%+v", e)
	}
	says(t, text, "web-tls exists, written for Certificate web", "certplane renew -n default web --context c", "Issuer self in the namespace default is ready")
	secret := &corev1.Secret{}
	if err := w.admin.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "web-tls"}, secret); err != nil {
		t.Fatal(err)
	}
	if key := strings.Split(string(secret.Data["tls.key"]), "\n")[1]; strings.Contains(text, key) {
		t.Error("the explanation has the key")
	}

	w.certificate(t, "late", "web-tls", "self")
	e, text = w.certificateBecomes(t, "late", "gets no certificate: its Secret web-tls belongs to Certificate web, which names it too")
	says(t, text, "Choose another spec.secretName for one of the two")
	if _, text = w.certificateBecomes(t, "web", "is ready"); !strings.Contains(text, "others that name it get nothing: late") {
		t.Error(text)
	}

	w.certificate(t, "mail", "mail-tls", "nobody")
	e, text = w.certificateBecomes(t, "mail", `is not ready, and its certificate is under way: mail-1 is approved, and its issuer cannot sign: Referenced "Issuer" not found`)
	says(t, text, "mail-tls does not exist yet", "certplane kubectl --context c get issuers.cert-manager.io -n default",
		"certplane explain certificaterequest -n default mail-1 --context c")
	if e.State != explain.CertificateIssuing {
		t.Error(e.State)
	}

	says(t, text, "Create the issuer, or correct spec.issuerRef.")
	silent(t, text, "another request")

	w.create(t, &cmv1.Certificate{ObjectMeta: named("kind"), Spec: cmv1.CertificateSpec{
		SecretName: "kind-tls", DNSNames: []string{"kind.example.com"}, IssuerRef: cmmeta.IssuerReference{Name: "self", Kind: cmv1.ClusterIssuerKind},
	}})
	w.certificateBecomes(t, "kind", `is not ready, and its certificate is under way: kind-1 is approved, and its issuer cannot sign: `+
		`Referenced "ClusterIssuer" not found: there is no ClusterIssuer named self (IssuerNotFound); an Issuer in the namespace default has that name: is kind Issuer meant?`)

	w.keystore(t, "java", "java-tls", "self", "passwords", "jks")
	_, text = w.certificateBecomes(t, "java", `is not ready, and its certificate is under way: Secret "passwords" has no password under the key "jks": it is needed for a keystore`)
	says(t, text, "the Secret passwords does not exist; it should contain the password of a keystore under the key jks",
		"certplane kubectl --context c create secret generic -n default passwords --from-file=jks=FILE")
	silent(t, text, "in base64")
	w.create(t, &corev1.Secret{ObjectMeta: named("passwords"), Data: map[string][]byte{"other": []byte("x")}})
	_, text = w.certificateBecomes(t, "java", "is not ready")
	says(t, text, "should be in Secret passwords, which exists, under the key jks", "certplane kubectl --context c describe secret -n default passwords")

	w.fail(t, "mail-1")
	e, text = w.certificateBecomes(t, "mail", "is not ready, as its issuance has failed: ")
	if e.State != explain.CertificateFailed || e.RetryTime == nil || time.Until(*e.RetryTime).Round(time.Hour) != time.Hour {
		t.Errorf("%s, tried again at %v", e.State, e.RetryTime)
	}
	says(t, text, "no such luck", "failures in a row: 1, the last at ", "certplane renew -n default mail --context c")

	rule := apitest.Allow("get", "certificates")
	rule.APIGroups = []string{api.Group}
	w.Grant(t, "ann", rule)
	_, text = ask[explain.CertificateExplanation](t, verb.IssuedCertificate, w.As(t, "ann"), "web", time.Now())
	says(t, text, "web is ready", "you may not get secrets", "you may not list certificaterequests", "you may not list events")
}

// fail marks a request as failed, as an issuer would.
func (w issuing) fail(t *testing.T, name string) {
	t.Helper()
	cr := &cmv1.CertificateRequest{}
	apitest.Eventually(t, name+" fails", func() bool {
		if err := w.admin.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, cr); err != nil {
			t.Fatal(err)
		}
		now := metav1.Now()
		cr.Status.FailureTime = &now
		api.SetRequestCondition(cr, cmv1.CertificateRequestConditionReady, cmmeta.ConditionFalse, cmv1.CertificateRequestReasonFailed, "no such luck", now)
		return w.admin.Status().Update(t.Context(), cr) == nil
	})
}
