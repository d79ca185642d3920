package policies_test

import (
	"path/filepath"
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	api "github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/run/server"
)

// heard are the warnings that a client got.
type heard []string

func (h *heard) HandleWarningHeader(_ int, _ string, text string) { *h = append(*h, text) }

// listening returns a client whose warnings are kept.
func (f *fixture) listening(to *heard) client.Client {
	f.Helper()
	cfg := rest.CopyConfig(f.server.Admin(f))
	cfg.WarningHandler = to
	c, err := client.New(cfg, client.Options{Scheme: f.objects.Scheme(), Mapper: f.objects.RESTMapper()})
	if err != nil {
		f.Fatal(err)
	}
	return c
}

// zone creates an issuer, and a policy that permits names in shop.example.com
// from it, for Certificates of certplane's own controller alone. Fingerprints of
// keys that are not made yet are open.
func (f *fixture) zone() {
	f.Helper()
	f.create(&cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: ownIssuer}, Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{SelfSigned: &cmv1.SelfSignedIssuer{}}}})
	f.policy("zone", func(s *v1alpha1.CertificatePolicySpec) {
		s.Effect, s.Message = v1alpha1.PolicyLimit, "other names: ask #pki"
		s.Match = v1alpha1.PolicyMatch{
			Signers: []string{"clusterissuers.cert-manager.io/" + ownIssuer}, Origins: []v1alpha1.RequestOrigin{v1alpha1.OriginCertificate},
			Requesters: &v1alpha1.RequesterMatch{RequesterLists: v1alpha1.RequesterLists{ServiceAccounts: []string{"kube-system/*"}}},
		}
		s.Certificate = &v1alpha1.CertificateConditions{
			Names: &v1alpha1.NameConditions{DNS: &v1alpha1.DNSConditions{Zones: []string{"shop.example.com"}}},
			Keys:  &v1alpha1.KeyConditions{Types: []v1alpha1.KeyType{v1alpha1.ECDSAP256}},
		}
		s.Rules = []v1alpha1.PolicyRule{{Name: "key", Expression: "request.keyFingerprint != '' && certificate.keyFingerprint.size() == 64"}}
	})
}

func certificateFor(name string, dnsNames ...string) *cmv1.Certificate {
	return &cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: cmv1.CertificateSpec{
		SecretName: name, DNSNames: dnsNames, IssuerRef: cmmeta.IssuerReference{Kind: "ClusterIssuer", Name: ownIssuer},
		PrivateKey: &cmv1.CertificatePrivateKey{Algorithm: cmv1.ECDSAKeyAlgorithm},
	}}
}

// change updates a Certificate as c.
func (f *fixture) change(c client.Client, crt *cmv1.Certificate, change func(*cmv1.Certificate)) error {
	f.Helper()
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := f.objects.Get(f.Context(), client.ObjectKeyFromObject(crt), crt); err != nil {
			return err
		}
		change(crt)
		return c.Update(f.Context(), crt)
	})
}

const foreignName = `certificate policy zone: dnsNames[1] "www.example.org" is in none of the zones shop.example.com. other names: ask #pki`

// The author of a Certificate is told what will become of it: at once, and by its
// conditions.
func TestCertificateIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.log")
	f := start(t, func(c *server.Config) { c.Policy.DecisionLog.Path = path })
	f.zone()
	var told heard
	as := f.listening(&told)
	crt := certificateFor("web", "www.shop.example.com", "www.example.org")
	for _, options := range [][]client.CreateOption{{client.DryRunAll}, nil} {
		told = nil
		if err := as.Create(t.Context(), crt.DeepCopy(), options...); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(heard{"this Certificate's request would be denied: " + foreignName}, told); diff != "" {
			t.Errorf("options %v: the warnings are others: %s", options, diff)
		}
	}
	apitest.Eventually(t, "the Certificate says why it is not ready", func() bool {
		if f.objects.Get(t.Context(), client.ObjectKeyFromObject(crt), crt) != nil {
			return false
		}
		ready, issuing := api.CertificateCondition(crt, cmv1.CertificateConditionReady), api.CertificateCondition(crt, cmv1.CertificateConditionIssuing)
		return ready != nil && ready.Status == cmmeta.ConditionFalse && crt.Status.LastFailureTime != nil &&
			issuing != nil && issuing.Status == cmmeta.ConditionFalse && strings.Contains(issuing.Message, foreignName)
	})
	told = nil
	if err := f.change(as, crt, func(c *cmv1.Certificate) { c.Annotations = map[string]string{"note": "x"} }); err != nil || told != nil {
		t.Errorf("a change of the metadata: warnings %q, error %v", told, err)
	}
	if err := f.change(as, crt, func(c *cmv1.Certificate) { c.Spec.PrivateKey.Size = 384 }); err != nil || len(told) != 1 || !strings.Contains(told[0], "the key is ECDSA P-384") {
		t.Errorf("another key: warnings %q, error %v", told, err)
	}
	told = nil
	if err := f.change(as, crt, func(c *cmv1.Certificate) {
		c.Spec.PrivateKey.Size, c.Spec.DNSNames = 256, []string{"www.shop.example.com"}
	}); err != nil || told != nil {
		t.Errorf("the correction: warnings %q, error %v", told, err)
	}
	f.issued(crt)
	set := f.set()
	f.server.Stop(t)
	var owner []string
	for _, line := range readLog(t, path) {
		if line.Stage == v1alpha1.StageOwner {
			owner = append(owner, string(line.Outcome)+" "+line.Request.Name+" "+line.Violations[0].At)
			sameAgain(t, set, line)
		}
	}
	if diff := cmp.Diff([]string{"Deny web-1 certificate.names.dns", "Deny web-1 certificate.keys"}, owner); diff != "" {
		t.Errorf("the log has other decisions: %s", diff)
	}
}

// issued waits until a Certificate is ready.
func (f *fixture) issued(crt *cmv1.Certificate) {
	f.Helper()
	apitest.Eventually(f, "the Certificate is issued", func() bool {
		if f.objects.Get(f.Context(), client.ObjectKeyFromObject(crt), crt) != nil {
			return false
		}
		ready := api.CertificateCondition(crt, cmv1.CertificateConditionReady)
		return ready != nil && ready.Status == cmmeta.ConditionTrue
	})
}

func TestCertificateIsRefused(t *testing.T) {
	f := start(t, func(c *server.Config) { c.Policy.Certificates = "Refuse" })
	f.zone()
	var told heard
	as := f.listening(&told)
	crt := certificateFor("web", "www.shop.example.com", "www.example.org")
	crt.Spec.CommonName = "www.shop.example.com"
	err := as.Create(t.Context(), crt.DeepCopy())
	status, _ := err.(apierrors.APIStatus)
	if status == nil || status.Status().Code != 403 || !strings.Contains(err.Error(), foreignName) {
		t.Fatalf("creating it: %v", err)
	}
	want := []metav1.StatusCause{{
		Type: "NameNotPermitted", Field: "spec.dnsNames[1]", Message: `dnsNames[1] "www.example.org" is in none of the zones shop.example.com`,
	}}
	if diff := cmp.Diff(want, status.Status().Details.Causes); diff != "" || told != nil {
		t.Errorf("the causes are others, warnings %q: %s", told, diff)
	}
	crt.Spec.DNSNames = crt.Spec.DNSNames[:1]
	f.create(crt)
	if err := f.change(as, crt, func(c *cmv1.Certificate) { c.Spec.PrivateKey.Size = 384 }); !apierrors.IsForbidden(err) {
		t.Errorf("another key: %v", err)
	}
	f.issued(crt)
}
