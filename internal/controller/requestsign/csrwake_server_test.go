package requestsign_test

import (
	"crypto/x509"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// CertificateSigningRequests continue as soon as the object they wait for
// exists, not only at the next retry: an issuer, its Secret, the Secret with
// their own key. A wrong Secret can be corrected.
func TestCSRsGoOn(t *testing.T) {
	w := start(t)
	admin := apitest.Client(t, w.Admin(t))
	w.Grant(t, "ann", apitest.Allow("create", "certificatesigningrequests"))
	const cluster, delayed = "clusterissuers.cert-manager.io/", "SigningDelayed"

	late := w.csr(t, "ann", "late", cluster+"late", nil)
	w.failed(t, "late", delayed, "IssuerNotFound")
	w.create(t, &cmv1.ClusterIssuer{ObjectMeta: meta("", "late"), Spec: withCA("late-ca")})
	w.failed(t, "late", delayed, "IssuerNotReady")
	w.create(t, newCA(t, "cert-manager", "late-ca", apitest.NewKey(t)))
	apitest.Issued(t, admin, late)

	key := apitest.NewKey(t)
	w.create(t, &cmv1.ClusterIssuer{ObjectMeta: meta("", "self"), Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{SelfSigned: &cmv1.SelfSignedIssuer{}}}})
	unsigned := apitest.NewCSR(t, "own-key", cluster+"self", pki.Subject{CommonName: "own-key"}, key)
	unsigned.Annotations = map[string]string{"experimental.cert-manager.io/private-key-secret-name": "own"}
	own := apitest.Decide(t, admin, apitest.Create(t, admin, unsigned), certificatesv1.CertificateApproved)
	w.failed(t, "own-key", delayed, "SecretNotFound")
	wrong := keySecret(t, "own", key)
	wrong.Namespace, wrong.Data["tls.key"] = "cert-manager", []byte("broken")
	w.create(t, wrong)
	w.failed(t, "own-key", delayed, "ErrorParsingKey")
	right := keySecret(t, "own", key)
	right.Namespace = "cert-manager"
	if err := w.everywhere.Update(t.Context(), right); err != nil {
		t.Fatal(err)
	}
	certs, err := pki.ParseCertificates(apitest.Issued(t, admin, own))
	if err != nil || len(certs) != 1 || certs[0].CheckSignature(x509.ECDSAWithSHA256, certs[0].RawTBSCertificate, certs[0].Signature) != nil {
		t.Errorf("it is not signed with its own key: %v", err)
	}
	w.csr(t, "ann", "no-annotation", cluster+"self", nil)
	w.failed(t, "no-annotation", certificatesv1.CertificateFailed, "MissingAnnotation")
}
