package requestsign_test

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// csr sends an approved request as a user.
func (w world) csr(t *testing.T, user, name, signerName string, annotations map[string]string, more ...certificatesv1.KeyUsage) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	c := apitest.NewCSR(t, name, signerName, pki.Subject{CommonName: name}, apitest.NewKey(t))
	c.Annotations = annotations
	c.Spec.Usages = append(c.Spec.Usages, more...)
	created := apitest.Create(t, apitest.Client(t, w.As(t, user)), c)
	return apitest.Decide(t, apitest.Client(t, w.Admin(t)), created, certificatesv1.CertificateApproved)
}

// failed waits until a request has a condition with this reason.
func (w world) failed(t *testing.T, name string, kind certificatesv1.RequestConditionType, reason string) {
	t.Helper()
	admin := apitest.Client(t, w.Admin(t))
	apitest.Eventually(t, name+" is "+reason, func() bool {
		c, err := admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, condition := range c.Status.Conditions {
			if condition.Type == kind && condition.Reason == reason {
				return true
			}
		}
		return false
	})
}

// CertificateSigningRequests can name issuers: any user can name
// ClusterIssuers, but only users who may refer to an Issuer can name it.
func TestCertificateSigningRequests(t *testing.T) {
	w := start(t)
	admin := apitest.Client(t, w.Admin(t))
	w.create(t,
		newCA(t, "", "ca", apitest.NewKey(t)), caIssuer("ca", "ca"), caIssuer("ca.v2", "ca"),
		newCA(t, "cert-manager", "ca", apitest.NewKey(t)), &cmv1.ClusterIssuer{ObjectMeta: meta("", "ca"), Spec: withCA("ca")},
		caIssuer("unready", "missing"))
	for _, user := range []string{"ann", "bob", "eve"} {
		w.Grant(t, user, apitest.Allow("create", "certificatesigningrequests"))
	}
	grantReference(t, w, "ann", "ca.v2", "unready")
	grantReference(t, w, "bob", "*")
	apitest.Create(t, admin, apitest.NewCSR(t, "undecided", "clusterissuers.cert-manager.io/ca", pki.Subject{CommonName: "undecided"}, apitest.NewKey(t)))

	issued := func(c *certificatesv1.CertificateSigningRequest) *x509.Certificate {
		t.Helper()
		certs, err := pki.ParseCertificates(apitest.Issued(t, admin, c))
		if err != nil {
			t.Fatal(err)
		}
		return certs[0]
	}
	const duration, isCA = "experimental.cert-manager.io/request-duration", "experimental.cert-manager.io/request-is-ca"
	const issuers, cluster = "issuers.cert-manager.io/", "clusterissuers.cert-manager.io/"
	if cert := issued(w.csr(t, "eve", "of-cluster", cluster+"ca", nil)); cert.NotAfter.Sub(cert.NotBefore) != 90*24*time.Hour || cert.IsCA {
		t.Errorf("lives %v, CA: %v", cert.NotAfter.Sub(cert.NotBefore), cert.IsCA)
	}
	if cert := issued(w.csr(t, "ann", "by-name", issuers+"default.ca.v2", map[string]string{duration: "896h"})); cert.NotAfter.Sub(cert.NotBefore) != 896*time.Hour {
		t.Errorf("lives %v", cert.NotAfter.Sub(cert.NotBefore))
	}
	if cert := issued(w.csr(t, "bob", "by-star", issuers+"default.ca", map[string]string{isCA: "true"}, certificatesv1.UsageCertSign)); !cert.IsCA {
		t.Error("it is no CA")
	}
	const failed = certificatesv1.CertificateFailed
	w.csr(t, "eve", "without-right", issuers+"default.ca", nil)
	w.failed(t, "without-right", failed, "DeniedReference")
	w.csr(t, "ann", "other-name", issuers+"default.ca", nil)
	w.failed(t, "other-name", failed, "DeniedReference")
	w.csr(t, "eve", "no-duration", cluster+"ca", map[string]string{duration: "long"})
	w.failed(t, "no-duration", failed, "ErrorParseDuration")
	w.csr(t, "eve", "short", cluster+"ca", map[string]string{duration: "9m"})
	w.failed(t, "short", failed, "InvalidDuration")
	w.csr(t, "eve", "nobody", cluster+"nobody", nil)
	w.failed(t, "nobody", "SigningDelayed", "IssuerNotFound")
	w.csr(t, "ann", "unready", issuers+"default.unready", nil)
	w.failed(t, "unready", "SigningDelayed", "IssuerNotReady")
	contradiction := apitest.NewCSR(t, "contradiction", cluster+"ca", pki.Subject{}, apitest.NewKey(t))
	contradiction.Spec.Request = asksForCA(t)
	apitest.Decide(t, admin, apitest.Create(t, admin, contradiction), certificatesv1.CertificateApproved)
	w.failed(t, "contradiction", failed, "SigningError")
	w.told(t, "of-cluster", "cert-manager-certificatesigningrequests", corev1.EventTypeNormal, "CertificateIssued")
	w.told(t, "without-right", "cert-manager-certificatesigningrequests", corev1.EventTypeWarning, "DeniedReference")
	w.told(t, "undecided", "cert-manager-certificatesigningrequests", corev1.EventTypeNormal, "WaitingApproval")
}

// asksForCA returns a request whose signed part asks for a CA.
func asksForCA(t *testing.T) []byte {
	t.Helper()
	isCA := pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 3, 1, 1, 0xff}}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{ExtraExtensions: []pkix.Extension{isCA}}, apitest.NewKey(t))
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// grantReference lets a user refer to Issuers in the namespace default.
func grantReference(t *testing.T, w world, user string, issuers ...string) {
	t.Helper()
	w.create(t,
		&rbacv1.Role{ObjectMeta: meta("", "reference-"+user), Rules: []rbacv1.PolicyRule{{
			Verbs: []string{"reference"}, APIGroups: []string{"cert-manager.io"}, Resources: []string{"signers"}, ResourceNames: issuers,
		}}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta("", "reference-"+user),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reference-" + user},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
		})
}
