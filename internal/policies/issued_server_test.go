package policies_test

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	api "github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

const foreignSigner = "example.com/foreign"

// foreignCertificate is what a signer of others issues.
func foreignCertificate(t *testing.T, key crypto.Signer, names ...string) []byte {
	t.Helper()
	return pki.EncodeCertificates(foreignLeaf(t, key, names...))
}

func foreignLeaf(t *testing.T, key crypto.Signer, names ...string) *x509.Certificate {
	t.Helper()
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), DNSNames: names, NotBefore: now.Add(-time.Minute), NotAfter: now.Add(2 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// startForeign starts a server with a signer of others, of which a policy permits
// names in shop.example.com.
func startForeign(t *testing.T, checked bool) (f *fixture, signer kubernetes.Interface) {
	t.Helper()
	f = start(t, func(c *server.Config) {
		c.Policy.CheckIssued = checked
		c.Controllers = append(c.Controllers, "-certificaterequests")
	})
	f.policy("names", func(s *v1alpha1.CertificatePolicySpec) {
		s.Effect, s.Match.Signers = v1alpha1.PolicyLimit, []string{foreignSigner, "clusterissuers.cert-manager.io/" + ownIssuer}
		s.Certificate = &v1alpha1.CertificateConditions{
			Names: &v1alpha1.NameConditions{DNS: &v1alpha1.DNSConditions{Zones: []string{"shop.example.com"}}},
		}
	})
	f.server.Grant(t, "signer", apitest.Allow("get update patch", "certificatesigningrequests/status podcertificaterequests/status"), apitest.Allow("sign", "signers"))
	return f, apitest.Client(t, f.server.Login(t, "signer"))
}

// wantNotPermitted reports an error unless err is the refusal of a certificate
// for www.example.org.
func wantNotPermitted(t *testing.T, err error, field string) {
	t.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != 403 || status.Status().Reason != "CertificateNotAsPermitted" ||
		!strings.Contains(err.Error(), `certificate policy names: dnsNames[0] "www.example.org" is in none of the zones shop.example.com`) {
		t.Fatalf("a certificate that the policy forbids: %v", err)
	}
	if causes := status.Status().Details.Causes; len(causes) != 1 || causes[0].Type != "NameNotPermitted" || causes[0].Field != field {
		t.Errorf("the causes are %+v", causes)
	}
}

// What a signer of others writes must be what the policies permit, also behind a
// certificate that fits.
func TestIssuedIsChecked(t *testing.T) {
	f, signer := startForeign(t, true)
	key := apitest.NewKey(t)
	csr := apitest.Create(t, f.api, apitest.NewCSR(t, "a", foreignSigner, pki.Subject{DNSNames: []string{"a.shop.example.com"}}, key))
	csr = apitest.Decide(t, f.api, csr, certificatesv1.CertificateApproved)
	bad, good := foreignCertificate(t, key, "www.example.org"), foreignCertificate(t, key, "a.shop.example.com")
	write := func(certificate []byte, options metav1.UpdateOptions) error {
		csr.Status.Certificate = certificate
		_, err := signer.CertificatesV1().CertificateSigningRequests().UpdateStatus(t.Context(), csr, options)
		return err
	}
	for _, certificate := range [][]byte{bad, append(append([]byte{}, good...), bad...)} {
		wantNotPermitted(t, write(certificate, metav1.UpdateOptions{}), "status.certificate")
		wantNotPermitted(t, write(certificate, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}), "status.certificate")
	}
	if err := write(append(append([]byte{}, good...), foreignCertificate(t, apitest.NewKey(t), "ca.example.org")...), metav1.UpdateOptions{}); err != nil {
		t.Errorf("a certificate that fits, with its CA: %v", err)
	}
	t.Run("CertificateRequest", f.testIssuedRequest)
	t.Run("PodCertificateRequest", func(t *testing.T) { f.testIssuedForPod(t, signer) })
}

func (f *fixture) testIssuedRequest(t *testing.T) {
	f.create(&cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: ownIssuer}, Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{SelfSigned: &cmv1.SelfSignedIssuer{}}}})
	key := apitest.NewKey(t)
	pem, err := pki.NewRequest(pki.Subject{DNSNames: []string{"a.shop.example.com"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	cr := &cmv1.CertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Spec: cmv1.CertificateRequestSpec{
		Request: pem, IssuerRef: cmmeta.IssuerReference{Kind: "ClusterIssuer", Name: ownIssuer},
	}}
	f.create(cr)
	f.requestHas(cr, cmv1.CertificateRequestConditionApproved)
	write := func(names string) error {
		return retry.RetryOnConflict(retry.DefaultRetry, func() error {
			if err := f.objects.Get(t.Context(), client.ObjectKeyFromObject(cr), cr); err != nil {
				return err
			}
			cr.Status.Certificate = foreignCertificate(t, key, names)
			api.SetRequestCondition(cr, cmv1.CertificateRequestConditionReady, cmmeta.ConditionTrue, cmv1.CertificateRequestReasonIssued, "issued by a test", metav1.Now())
			return f.objects.Status().Update(t.Context(), cr)
		})
	}
	wantNotPermitted(t, write("www.example.org"), "status.certificate")
	if err := write("a.shop.example.com"); err != nil {
		t.Errorf("a certificate that fits: %v", err)
	}
}

func (f *fixture) testIssuedForPod(t *testing.T, signer kubernetes.Interface) {
	key := apitest.NewKey(t)
	bound := apitest.NewBoundPod(t, f.api, "default", "p", "n", apitest.PodSource(foreignSigner))
	pcrs := f.api.CertificatesV1beta1().PodCertificateRequests("default")
	pcr, err := pcrs.Create(t.Context(), bound.Request(t, 0, key), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string) error {
		leaf := foreignLeaf(t, key, name)
		at := func(when time.Time) *metav1.Time { return new(metav1.NewTime(when)) }
		pcr.Status = certificatesv1beta1.PodCertificateRequestStatus{
			CertificateChain: string(pki.EncodeCertificates(leaf)),
			NotBefore:        at(leaf.NotBefore), NotAfter: at(leaf.NotAfter), BeginRefreshAt: at(leaf.NotBefore.Add(30 * time.Minute)),
			Conditions: []metav1.Condition{{
				Type: certificatesv1beta1.PodCertificateRequestConditionTypeIssued, Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.Now(),
			}},
		}
		_, err := signer.CertificatesV1beta1().PodCertificateRequests("default").UpdateStatus(t.Context(), pcr, metav1.UpdateOptions{})
		return err
	}
	wantNotPermitted(t, write("www.example.org"), "status.certificateChain")
	if err := write("a.shop.example.com"); err != nil {
		t.Errorf("a certificate that fits: %v", err)
	}
}

// Unless it is switched on, signers of others write what they want.
func TestIssuedIsNotChecked(t *testing.T) {
	f, signer := startForeign(t, false)
	key := apitest.NewKey(t)
	csr := apitest.Create(t, f.api, apitest.NewCSR(t, "a", foreignSigner, pki.Subject{DNSNames: []string{"a.shop.example.com"}}, key))
	csr = apitest.Decide(t, f.api, csr, certificatesv1.CertificateApproved)
	csr.Status.Certificate = foreignCertificate(t, key, "www.example.org")
	if _, err := signer.CertificatesV1().CertificateSigningRequests().UpdateStatus(t.Context(), csr, metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
}
