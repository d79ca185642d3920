package policies_test

import (
	"context"
	"crypto/ed25519"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/client/cli/policy/facts"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/run/server"
)

// Two people approve the first request; what renews it needs nobody, and anything else
// needs them again.
func TestRenewalsNeedNobody(t *testing.T) {
	e := startElectorate(t)
	e.renewable()
	apitest.Eventually(t, "the signer's roots are published", func() bool {
		roots, err := policies.BundledRoots(t.Context(), e.objects, signerName)
		return err == nil && len(roots) > 0
	})
	alice, bob := e.person(true, "alice", "pki"), e.person(true, "bob", "security")
	dave, mallory := e.person(false, "dave"), e.person(false, "mallory")
	ask := func(by *voter, name, common string, seconds int32) *csr {
		t.Helper()
		made := apitest.NewCSR(t, name, signerName, pki.Subject{CommonName: common}, apitest.NewKey(t))
		made.Spec.ExpirationSeconds = &seconds
		return apitest.Create(t, by.client, made)
	}
	people := func(r *csr) {
		t.Helper()
		if c := e.condition(r, quorum.AwaitingApproval); !strings.HasPrefix(c.Message, "0 of 2 approvals") {
			t.Errorf("%s: %s", r.Name, c.Message)
		}
	}
	first := ask(dave, "first", "web-1", 7200)
	people(first)
	e.approve(alice, first.Name, "")
	e.approve(bob, first.Name, "")
	apitest.Issued(t, e.api, first)

	next := ask(dave, "next", "web-1", 7200)
	if err := issuedFor(t, apitest.Issued(t, e.api, next), 2*time.Hour); err != nil {
		t.Error(err)
	}
	approved := e.condition(next, certificatesv1.CertificateApproved)
	if want := `Approved by CertificatePolicy "two" (generation 1): it renews the CertificateSigningRequest first, which people have approved`; approved.Message != want {
		t.Errorf("approved with %q", approved.Message)
	}
	e.toldOfRenewal(next)
	people(ask(dave, "other-name", "web-2", 7200))
	people(ask(dave, "longer", "web-1", 14400))
	people(ask(mallory, "other-user", "web-1", 7200))

	e.sealedByOthers(next)

	// A renewed certificate is not one that people have approved.
	if err := e.api.CertificatesV1().CertificateSigningRequests().Delete(t.Context(), first.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	people(ask(dave, "renews-a-renewal", "web-1", 7200))
}

// toldOfRenewal checks that programs outside of the server find what a request renews.
func (e *electorate) toldOfRenewal(renewal *csr) {
	e.Helper()
	reader, err := explain.Connect(e.server.Admin(e.T))
	if err != nil {
		e.Fatal(err)
	}
	found, err := explain.CertificateSigningRequest(e.Context(), reader, explain.Query{Name: renewal.Name, Now: time.Now()})
	if err != nil {
		e.Fatal(err)
	}
	want := explain.Check{Name: "policies", Result: explain.Yes, Message: "approved by policy two: it renews the CertificateSigningRequest first, which people have approved"}
	if !slices.Contains(found.Checks, want) {
		e.Errorf("explain: %v", found.Checks)
	}
	keys := func(ctx context.Context) ([]ed25519.PublicKey, error) {
		return policies.ReadSealKeys(ctx, e.objects, policies.ControllerNamespaces(ctx, e.objects))
	}
	r := request.FromCSR(renewal)
	for reason, tt := range map[string]struct {
		finder *facts.Finder
		known  bool
	}{
		"with the keys":    {&facts.Finder{Objects: e.objects, SealKeys: keys}, true},
		"without the keys": {&facts.Finder{Objects: e.objects}, false},
	} {
		earlier := tt.finder.Of(e.Context(), &r, nil, certpolicy.Needs{Earlier: true}).Earlier
		if earlier.Known != tt.known || tt.known && (len(earlier.Value.Requests) != 1 || earlier.Value.Requests[0].Name != "first") {
			e.Errorf("%s: %+v", reason, earlier)
		}
	}
}

// renewable creates a policy by which two people have to approve, and nobody what renews
// a certificate.
func (e *electorate) renewable() {
	e.Helper()
	e.policy("two", func(s *v1alpha1.CertificatePolicySpec) {
		s.Effect, s.Match.Kinds = v1alpha1.PolicyLimit, []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests}
		s.Approval = &v1alpha1.PolicyApproval{Mode: v1alpha1.ApprovePeople, Renewals: v1alpha1.RenewAutomatic, People: new(requirement(2, "1 of pki", "1 of security"))}
	})
}

// A certificate that the signer's CA has not signed cannot be renewed without people, nor
// one of a signer whose CA nobody attests.
func TestRenewalsNeedTheSignersCA(t *testing.T) {
	e := startElectorate(t, func(c *server.Config) { c.Controllers = append(c.Controllers, "-sign") })
	e.renewable()
	dave := e.person(false, "dave")
	key := apitest.NewKey(t)
	first := apitest.Create(t, dave.client, apitest.NewCSR(t, "first", signerName, pki.Subject{CommonName: "web-1"}, key))
	e.condition(first, quorum.AwaitingApproval)
	e.approve(e.person(true, "alice", "pki"), first.Name, "")
	e.approve(e.person(true, "bob", "security"), first.Name, "")
	root := func() *pki.Authority {
		made, err := pki.NewRoot(pki.UnrecordedSigning, "ca", apitest.NewKey(t), 365*24*time.Hour, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	by := root()
	issued, err := by.Issue(pki.UnrecordedSigning, pki.Subject{CommonName: "web-1"}, key.Public(), pki.ClientUsages(), time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	signed, err := e.api.CertificatesV1().CertificateSigningRequests().Get(t.Context(), first.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	signed.Status.Certificate = pki.EncodeCertificates(issued...)
	if _, err := e.api.CertificatesV1().CertificateSigningRequests().UpdateStatus(t.Context(), signed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	ask := func(name string) *csr {
		made := apitest.NewCSR(t, name, signerName, pki.Subject{CommonName: "web-1"}, apitest.NewKey(t))
		made.Spec.ExpirationSeconds = new(int32(1800))
		return apitest.Create(t, dave.client, made)
	}
	attest := func(name string, ca *pki.Authority) {
		e.create(&certificatesv1beta1.ClusterTrustBundle{
			ObjectMeta: metav1.ObjectMeta{Name: strings.ReplaceAll(signerName, "/", ":") + ":" + name},
			Spec:       certificatesv1beta1.ClusterTrustBundleSpec{SignerName: signerName, TrustBundle: string(pki.EncodeCertificates(ca.Certificate()))},
		})
	}
	people := func(r *csr) {
		t.Helper()
		if c := e.condition(r, quorum.AwaitingApproval); !strings.HasPrefix(c.Message, "0 of 2 approvals") {
			t.Errorf("%s: %s", r.Name, c.Message)
		}
	}
	people(ask("nobody-attests"))
	attest("other", root())
	people(ask("another-ca"))
	attest("own", by)
	if c := e.condition(ask("its-ca"), certificatesv1.CertificateApproved); !strings.Contains(c.Message, "it renews the CertificateSigningRequest first") {
		t.Errorf("approved with %q", c.Message)
	}
}

func issuedFor(t *testing.T, certificate []byte, most time.Duration) error {
	t.Helper()
	certs, err := pki.ParseCertificates(certificate)
	if err == nil && time.Until(certs[0].NotAfter) > most {
		t.Errorf("the renewed certificate is valid until %v", certs[0].NotAfter)
	}
	return err
}

// sealedByOthers checks that a process with another key for the seals, to which all
// approvals are forged, has people approve a renewal.
func (e *electorate) sealedByOthers(renewal *csr) {
	e.Helper()
	key, err := policies.DeriveSealKey(apitest.NewKey(e.T))
	if err != nil {
		e.Fatal(err)
	}
	seals := &policies.Seals{}
	if err := seals.Use(key); err != nil {
		e.Fatal(err)
	}
	p, err := policies.New(policies.Config{API: e.server.Admin(e.T), Settings: policies.DefaultSettings(), Defined: true, Seals: seals})
	if err != nil {
		e.Fatal(err)
	}
	defer p.Close()
	go p.Run(e.Context())
	if !p.WaitUntilKnown(e.Context()) {
		e.Fatal("the policies are not known")
	}
	var d *policies.Decision
	apitest.Eventually(e, "the requests are known", func() bool {
		d, err = p.Decide(e.Context(), certpolicy.Input{Stage: v1alpha1.StageSign, Request: request.FromCSR(renewal)})
		return err == nil
	})
	if d.Outcome != v1alpha1.OutcomeNeedPeople || d.Renews != nil {
		e.Errorf("with forged approvals: %s, it renews %v", d.Outcome, d.Renews)
	}
}

// What was approved as a renewal past the approver is compared again at signing.
func TestSignersCompareRenewals(t *testing.T) {
	f := start(t, func(c *server.Config) {
		c.Controllers = append(c.Controllers, "-approve")
		c.Admission.DisabledPlugins = []string{"CertificatePolicy"}
	})
	f.policy("two", func(s *v1alpha1.CertificatePolicySpec) {
		s.Effect, s.Match.Kinds = v1alpha1.PolicyLimit, []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests}
		s.Approval = &v1alpha1.PolicyApproval{Mode: v1alpha1.ApprovePeople, Renewals: v1alpha1.RenewAutomatic, People: new(requirement(2))}
	})
	made := f.csr("web-1")
	made.Status.Conditions = append(made.Status.Conditions, condition{
		Type: certificatesv1.CertificateApproved, Status: "True", Reason: "PolicyApproved", Message: "it renews the CertificateSigningRequest web-0, which people have approved",
	})
	if _, err := f.api.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), made.Name, made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if c := f.condition(made, certificatesv1.CertificateFailed); c.Reason != "ApprovalsMissing" {
		t.Errorf("failed with %s: %s", c.Reason, c.Message)
	}
}
