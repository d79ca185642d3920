package issuer_test

import (
	"bytes"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/issuer"
)

// From an issuer and a request to a certificate, with the built-in approver.
func TestIssued(t *testing.T) {
	w := start(t)
	c := newCA(t)
	w.run(t, issuer.Controller{Sign: c.sign})
	key := apitest.NewKey(t)
	cr := request(t, "web", "ca", key)
	cr.Spec.Duration = &metav1.Duration{Duration: 2 * time.Hour}
	cr.Spec.Usages = []cmv1.KeyUsage{cmv1.UsageDigitalSignature, cmv1.UsageClientAuth}
	w.create(t, remote("ca"), cr)

	done := w.becomes(t, "web", cmv1.CertificateRequestReasonIssued)
	leaf := verified(t, done.Status.Certificate, c.root, key)
	if !bytes.Equal(done.Status.CA, pki.EncodeCertificates(c.root)) {
		t.Errorf("status.ca is %s", done.Status.CA)
	}
	if life := leaf.NotAfter.Sub(leaf.NotBefore); life != 2*time.Hour {
		t.Errorf("it lives for %v", life)
	}
	if len(leaf.DNSNames) != 1 || leaf.DNSNames[0] != "web.example.com" || len(leaf.ExtKeyUsage) != 1 {
		t.Errorf("names %v, usages %v", leaf.DNSNames, leaf.ExtKeyUsage)
	}
	w.isReady(t, "ca", metav1.ConditionTrue, issuer.ReasonChecked)
	w.told(t, "ca", "Normal", "Checked")
	w.told(t, "web", "Normal", "CertificateIssued")
	if n := c.asked("web"); n != 1 {
		t.Errorf("the CA was asked %d times", n)
	}
}
