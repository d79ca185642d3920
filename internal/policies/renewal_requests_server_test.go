package policies_test

import (
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	api "github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// What renews a CertificateRequest that people have approved needs nobody if the CA of
// its issuer has signed the earlier certificate.
func TestRenewalsOfCertificateRequests(t *testing.T) {
	f := start(t)
	f.caIssuer("ca", "by-ca")
	f.policy("two", func(s *v1alpha1.CertificatePolicySpec) {
		s.Effect, s.Certificate, s.Match.Signers = v1alpha1.PolicyLimit, nil, []string{"clusterissuers.cert-manager.io/*"}
		s.Match.Kinds = []v1alpha1.RequestKind{v1alpha1.CertificateRequests}
		s.Approval = &v1alpha1.PolicyApproval{Mode: v1alpha1.ApprovePeople, Renewals: v1alpha1.RenewAutomatic, People: new(requirement(2))}
	})
	f.server.Grant(t, requester, mayRequest)
	first := f.requested("first", "by-ca", "www.shop.example.com")
	for _, name := range []string{"bob", "carol"} {
		f.approveRequest(f.approver(name), first)
	}
	apitest.Eventually(t, "the first request has its certificate", func() bool {
		return f.objects.Get(t.Context(), client.ObjectKeyFromObject(first), first) == nil && len(first.Status.Certificate) > 0
	})
	next := f.requested("next", "by-ca", "www.shop.example.com")
	if c := f.requestHas(next, cmv1.CertificateRequestConditionApproved); !strings.Contains(c.Message, "it renews the CertificateRequest default/first, which people have approved") {
		t.Errorf("approved with %q", c.Message)
	}
	apitest.Eventually(t, "what renews it has its certificate", func() bool {
		return f.objects.Get(t.Context(), client.ObjectKeyFromObject(next), next) == nil && len(next.Status.Certificate) > 0
	})
	people := func(cr *cmv1.CertificateRequest) {
		t.Helper()
		if c := f.requestHas(cr, quorum.AwaitingApproval); !strings.HasPrefix(c.Message, "0 of 2 approvals") {
			t.Errorf("%s: %s", cr.Name, c.Message)
		}
	}
	people(f.requested("other-name", "by-ca", "pay.shop.example.com"))

	// Another CA in the Secret has not signed the certificate.
	f.caIssuer("other-ca", "by-ca")
	apitest.Eventually(t, "the issuer has the other CA", func() bool {
		issuer := &cmv1.ClusterIssuer{}
		return f.objects.Get(t.Context(), client.ObjectKey{Name: "by-ca"}, issuer) == nil && api.IssuerCondition(issuer, cmv1.IssuerConditionReady).ObservedGeneration == issuer.Generation
	})
	people(f.requested("after-another-ca", "by-ca", "www.shop.example.com"))
}

// caIssuer has a ClusterIssuer sign with a new CA, in a Secret of this name.
func (f *fixture) caIssuer(secret, name string) {
	f.Helper()
	key := apitest.NewKey(f)
	ca, err := pki.NewRoot(pki.UnrecordedSigning, secret, key, 365*24*time.Hour, time.Now())
	if err != nil {
		f.Fatal(err)
	}
	text, err := pki.EncodePrivateKey(key)
	if err != nil {
		f.Fatal(err)
	}
	stored := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "cert-manager", Name: secret}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: pki.EncodeCertificates(ca.Certificate()), corev1.TLSPrivateKeyKey: text},
	}
	apitest.Eventually(f, "the Secret of the CA is stored", func() bool { return f.objects.Create(f.Context(), stored) == nil })
	issuer := &cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: name}}
	spec := cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{CA: &cmv1.CAIssuer{SecretName: secret}}}
	if f.objects.Get(f.Context(), client.ObjectKeyFromObject(issuer), issuer) == nil {
		issuer.Spec = spec
		if err := f.objects.Update(f.Context(), issuer); err != nil {
			f.Fatal(err)
		}
		return
	}
	issuer.Spec = spec
	f.create(issuer)
}

// approver returns a client for somebody who may approve CertificateRequests.
func (f *fixture) approver(name string) client.Client {
	f.Helper()
	f.server.Grant(f.T, name,
		rbacv1.PolicyRule{APIGroups: []string{"cert-manager.io"}, Resources: []string{"certificaterequests", "certificaterequests/status"}, Verbs: []string{"get", "patch", "update"}},
		rbacv1.PolicyRule{APIGroups: []string{"cert-manager.io"}, Resources: []string{"signers"}, Verbs: []string{"approve"}})
	as, err := client.New(f.server.Login(f.T, name), client.Options{Scheme: f.objects.Scheme()})
	if err != nil {
		f.Fatal(err)
	}
	return as
}

// approveRequest approves a CertificateRequest, also after a conflict.
func (f *fixture) approveRequest(as client.Client, cr *cmv1.CertificateRequest) {
	f.Helper()
	apitest.Eventually(f, cr.Name+" is approved by somebody", func() bool {
		if err := as.Get(f.Context(), client.ObjectKeyFromObject(cr), cr); err != nil {
			return false
		}
		api.SetRequestCondition(cr, cmv1.CertificateRequestConditionApproved, cmmeta.ConditionTrue, "Person", "approved", metav1.Now())
		return as.Status().Update(f.Context(), cr) == nil
	})
}
