package acmeorders_test

import (
	"crypto/rand"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/apitest/acmetest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// A signer whose CA another one has cross-signed has two chains, once somebody who may
// attest for it publishes that.
func TestCrossSignedSigner(t *testing.T) {
	w := acmetest.New(t, shared.Start(t))
	w.AutoApprove()
	var own []*x509.Certificate
	apitest.Eventually(t, "the root of the signer is published", func() (found bool) {
		var err error
		own, err = policies.BundledRoots(t.Context(), w.Objects, w.SignerName)
		return err == nil && len(own) == 1
	})
	key := apitest.NewKey(t)
	elder, err := pki.NewRoot(pki.UnrecordedSigning, "elder", key, 365*24*time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	crossed := *own[0]
	crossed.AuthorityKeyId = elder.Certificate().SubjectKeyId
	der, err := x509.CreateCertificate(rand.Reader, &crossed, elder.Certificate(), own[0].PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	also, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	w.Create(&certificatesv1beta1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: strings.ReplaceAll(w.SignerName, "/", ":") + ":elder"},
		Spec:       certificatesv1beta1.ClusterTrustBundleSpec{SignerName: w.SignerName, TrustBundle: string(pki.EncodeCertificates(also))},
	})
	o := w.Order(w.Preauthorized("a"))
	w.Finalize(o)
	if o = w.Ended(o); o.Status.State != v1alpha1.AcmeOrderValid {
		t.Fatalf("the order is %+v", o.Status)
	}
	chains := acmeorder.Chains(o)
	if len(chains) != 2 || !strings.HasSuffix(chains[0], string(pki.EncodeCertificates(own[0]))) || !strings.HasSuffix(chains[1], string(pki.EncodeCertificates(also))) {
		t.Errorf("the chains are %s", chains)
	}
}
