package acmeorders_test

import (
	"crypto/rand"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

	// The elder root is that of another signer, which hosts have. Until ours is published for
	// long enough, they get the chain to the elder one.
	w.Change(w.Endpoint, func() { w.Endpoint.Spec.Profiles[0].Overlap = &metav1.Duration{Duration: time.Hour} })
	apitest.Eventually(t, "the endpoint knows since when the root is published", func() bool {
		return w.Objects.Get(t.Context(), client.ObjectKeyFromObject(w.Endpoint), w.Endpoint) == nil && len(w.Endpoint.Status.Roots) == 1
	})
	if root := w.Endpoint.Status.Roots[0]; root.Fingerprint != pki.Fingerprint(own[0]) || root.CommonName != own[0].Subject.CommonName || root.SignerName != w.SignerName {
		t.Errorf("it knows %+v", root)
	}
	again := func() []string {
		o := w.Order(w.Preauthorized("a"))
		w.Finalize(o)
		return acmeorder.Chains(w.Ended(o))
	}
	ends := func(chain string, with *x509.Certificate) bool {
		return strings.HasSuffix(chain, string(pki.EncodeCertificates(with)))
	}
	if chains := again(); len(chains) != 2 || !ends(chains[0], also) || !ends(chains[1], own[0]) {
		t.Errorf("while the root is new, the chains are %s", chains)
	}
	w.Change(w.Endpoint, func() { w.Endpoint.Spec.Profiles[0].Overlap.Duration = 0 })
	if chains := again(); len(chains) != 2 || !ends(chains[0], own[0]) {
		t.Errorf("without an overlap, the chains are %s", chains)
	}
	w.Change(w.Endpoint, func() {
		w.Endpoint.Spec.Profiles[0].Chains = []v1alpha1.AcmeChain{{Root: "elder"}, {Root: own[0].Subject.CommonName}}
	})
	if chains := again(); len(chains) != 2 || !ends(chains[0], also) || !ends(chains[1], own[0]) {
		t.Errorf("with the elder root preferred, the chains are %s", chains)
	}
	w.Change(w.Endpoint, func() { w.Endpoint.Spec.Profiles[0].Chains = w.Endpoint.Spec.Profiles[0].Chains[:1] })
	if chains := again(); len(chains) != 1 || !ends(chains[0], also) {
		t.Errorf("with the elder root alone, the chains are %s", chains)
	}
}
