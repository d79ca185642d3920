package policies_test

import (
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/approverpolicy"
	api "github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

const signerName = certificatesv1.KubeAPIServerClientSignerName

// fixture is a server with clients of an administrator.
type fixture struct {
	*testing.T
	server  *apitest.Server
	objects client.Client
	api     kubernetes.Interface
}

// start starts a server for a test that runs beside others.
func start(t *testing.T, options ...func(*server.Config)) *fixture {
	t.Helper()
	t.Parallel()
	return startAlone(t, options...)
}

// startAlone starts a server for a test that reads metrics, which all servers of a
// process share: the tests beside others begin when these have ended.
func startAlone(t *testing.T, options ...func(*server.Config)) *fixture {
	t.Helper()
	started := apitest.Start(t, options...)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, api.AddToScheme, v1alpha1.AddToScheme, approverpolicy.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	objects, err := client.New(started.Admin(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{T: t, server: started, objects: objects, api: apitest.Client(t, started.Admin(t))}
}

func (f *fixture) create(object client.Object) {
	f.Helper()
	if err := f.objects.Create(f.Context(), object); err != nil {
		f.Fatal(err)
	}
}

// policy creates a policy about the signer of API clients, for subjects whose
// common name begins with web-.
func (f *fixture) policy(name string, change func(*v1alpha1.CertificatePolicySpec)) *v1alpha1.CertificatePolicy {
	f.Helper()
	p := &v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.CertificatePolicySpec{
		Effect: v1alpha1.PolicyAllow, Match: v1alpha1.PolicyMatch{Signers: []string{signerName}},
		Certificate: &v1alpha1.CertificateConditions{
			Subject: &v1alpha1.SubjectConditions{CommonName: &v1alpha1.CommonName{Text: v1alpha1.Text{Patterns: []string{"web-*"}}}},
			Usages:  &v1alpha1.UsageConditions{Allowed: []string{"digital signature", "key encipherment", "client auth"}},
		},
	}}
	change(&p.Spec)
	f.create(p)
	f.ready(p)
	return p
}

// ready waits until a policy is in force.
func (f *fixture) ready(p *v1alpha1.CertificatePolicy) {
	f.Helper()
	apitest.Eventually(f, "policy "+p.Name+" is in force", func() bool {
		current := &v1alpha1.CertificatePolicy{}
		return f.objects.Get(f.Context(), client.ObjectKeyFromObject(p), current) == nil && current.Status.ObservedGeneration == p.Generation
	})
}

func (f *fixture) csr(name string) *certificatesv1.CertificateSigningRequest {
	f.Helper()
	return apitest.Create(f, f.api, apitest.NewCSR(f, name, signerName, pki.Subject{CommonName: name}, apitest.NewKey(f)))
}

// condition waits for a condition of a CertificateSigningRequest.
func (f *fixture) condition(csr *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType) certificatesv1.CertificateSigningRequestCondition {
	f.Helper()
	var found certificatesv1.CertificateSigningRequestCondition
	apitest.Eventually(f, csr.Name+" is "+string(kind), func() bool {
		current, err := f.api.CertificatesV1().CertificateSigningRequests().Get(f.Context(), csr.Name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		for _, c := range current.Status.Conditions {
			if c.Type == kind {
				found = c
				return true
			}
		}
		return false
	})
	return found
}

func TestApproverObeysPolicies(t *testing.T) {
	f := start(t)
	p := f.policy("web", func(*v1alpha1.CertificatePolicySpec) {})
	good := f.csr("web-1")
	apitest.Issued(t, f.api, good)
	if c := f.condition(good, "Approved"); c.Reason != "PolicyApproved" || c.Message != `Approved by CertificatePolicy "web" (generation 1)` {
		t.Errorf("approved with %s: %s", c.Reason, c.Message)
	}
	f.countsEnd(p)
}

// countsEnd changes a policy. The counts in its status end with its generation.
func (f *fixture) countsEnd(p *v1alpha1.CertificatePolicy) {
	f.Helper()
	counted := p.DeepCopy()
	counted.Status.Shadow = &v1alpha1.PolicyShadowStatus{Evaluated: 7}
	if err := f.objects.Status().Patch(f.Context(), counted, client.MergeFrom(p)); err != nil {
		f.Fatal(err)
	}
	changed := counted.DeepCopy()
	changed.Spec.Description = "another"
	if err := f.objects.Patch(f.Context(), changed, client.MergeFrom(counted)); err != nil {
		f.Fatal(err)
	}
	f.ready(changed)
	if err := f.objects.Get(f.Context(), client.ObjectKeyFromObject(p), changed); err != nil || changed.Status.Shadow != nil {
		f.Errorf("after a change, the status has %+v; error %v", changed.Status, err)
	}
}

// An approval that went past the approver and admission gets no certificate.
func TestSignerObeysPolicies(t *testing.T) {
	f := start(t, func(c *server.Config) {
		c.Controllers = append(c.Controllers, "-approve")
		c.Admission.DisabledPlugins = []string{"CertificatePolicy"}
	})
	f.policy("web", func(s *v1alpha1.CertificatePolicySpec) { s.Effect = v1alpha1.PolicyLimit })
	csr := f.csr("db-1")
	apitest.Decide(t, f.api, csr, "Approved")
	failed := f.condition(csr, "Failed")
	if want := `certificate policy web: subject.commonName "db-1" matches none of the patterns web-*`; failed.Reason != "SubjectNotPermitted" || failed.Message != want {
		t.Errorf("failed with %s: %s", failed.Reason, failed.Message)
	}
}

// The lifetime of a policy holds for the finished certificate.
func TestLifetimeOfPolicies(t *testing.T) {
	f := start(t)
	f.policy("web", func(s *v1alpha1.CertificatePolicySpec) {
		s.Certificate.Lifetime = &v1alpha1.LifetimeConditions{Max: &metav1.Duration{Duration: time.Hour}, Exceeding: v1alpha1.LifetimeShorten}
	})
	certs, err := pki.ParseCertificates(apitest.Issued(t, f.api, f.csr("web-1")))
	if err != nil {
		t.Fatal(err)
	}
	if rest := time.Until(certs[0].NotAfter); rest > time.Hour {
		t.Errorf("the certificate is valid for %v", rest)
	}
}

func TestCertificateRequests(t *testing.T) {
	f := start(t)
	f.create(&cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: "own"}, Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{SelfSigned: &cmv1.SelfSignedIssuer{}}}})
	f.policy("zone", func(s *v1alpha1.CertificatePolicySpec) {
		s.Match.Signers = []string{"clusterissuers.cert-manager.io/own"}
		s.Certificate = &v1alpha1.CertificateConditions{
			Names:  &v1alpha1.NameConditions{DNS: &v1alpha1.DNSConditions{Zones: []string{"shop.example.com"}}},
			Usages: &v1alpha1.UsageConditions{Allowed: []string{"digital signature", "key encipherment"}},
		}
	})
	certificate := &cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: cmv1.CertificateSpec{
		SecretName: "web", DNSNames: []string{"www.example.org"}, IssuerRef: cmmeta.IssuerReference{Kind: "ClusterIssuer", Name: "own"},
	}}
	f.create(certificate)
	list := &cmv1.CertificateRequestList{}
	apitest.Eventually(t, "the request is denied", func() bool {
		if err := f.objects.List(t.Context(), list); err != nil || len(list.Items) == 0 {
			return false
		}
		denied := api.RequestCondition(&list.Items[0], cmv1.CertificateRequestConditionDenied)
		return denied != nil && denied.Reason == "policy.certplane.dev" && strings.Contains(denied.Message,
			`certificate policy zone: dnsNames[0] "www.example.org" is in none of the zones shop.example.com`)
	})
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := f.objects.Get(t.Context(), client.ObjectKeyFromObject(certificate), certificate); err != nil {
			return err
		}
		certificate.Spec.DNSNames = []string{"www.shop.example.com"}
		return f.objects.Update(t.Context(), certificate)
	})
	if err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the corrected Certificate is issued", func() bool {
		if f.objects.Get(t.Context(), client.ObjectKeyFromObject(certificate), certificate) != nil {
			return false
		}
		for _, c := range certificate.Status.Conditions {
			if c.Type == cmv1.CertificateConditionReady && c.Status == cmmeta.ConditionTrue {
				return true
			}
		}
		return false
	})
}
