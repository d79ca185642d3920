package server_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// Every decision stays with its author, reason and policies, after the request has gone, and a
// denial is no certificate.
func TestDecisionsAreRecorded(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	scheme := recordsScheme(t)
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	admin := apitest.Client(t, s.Admin(t))
	api, err := client.New(s.Admin(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	request := func(name, signer string, subject pki.Subject) *certificatesv1.CertificateSigningRequest {
		return apitest.Create(t, admin, apitest.NewCSR(t, name, signer, subject, apitest.NewKey(t)))
	}
	byPolicy := request("bank", "example.com/web", pki.Subject{DNSNames: []string{"bank.example"}}) // before the policy, which would refuse it
	policy := &v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: "shops"}, Spec: v1alpha1.CertificatePolicySpec{
		Effect: v1alpha1.PolicyLimit, Match: v1alpha1.PolicyMatch{Signers: []string{"example.com/web"}},
		Certificate: &v1alpha1.CertificateConditions{Names: &v1alpha1.NameConditions{DNS: &v1alpha1.DNSConditions{Zones: []string{"shop.example"}}}},
	}}
	people := &v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: "two"}, Spec: v1alpha1.CertificatePolicySpec{
		Effect:   v1alpha1.PolicyLimit,
		Match:    v1alpha1.PolicyMatch{Kinds: []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests, v1alpha1.CertificateRequests}, Signers: []string{certificatesv1.KubeAPIServerClientSignerName, "issuers.cert-manager.io/default.none"}},
		Approval: &v1alpha1.PolicyApproval{Mode: v1alpha1.ApprovePeople, People: &v1alpha1.PeopleRequirement{Count: 2}},
	}}
	for _, p := range []*v1alpha1.CertificatePolicy{policy, people} {
		if err := api.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}

	byPerson := request("denied", "example.com/web", pki.Subject{DNSNames: []string{"shop.example"}})
	denied := apitest.With(byPerson, certificatesv1.CertificateDenied)
	last := &denied.Status.Conditions[len(denied.Status.Conditions)-1]
	last.Reason, last.Message = "Unknown", "nobody knows this shop"
	if _, err := admin.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), denied.Name, denied, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	approved := request("approved", certificatesv1.KubeAPIServerClientSignerName, pki.Subject{CommonName: "web"})
	for _, name := range []string{"alice", "bob"} {
		person := apitest.Client(t, s.Login(t, name, "system:masters"))
		apitest.Eventually(t, name+" has approved", func() bool {
			csr, err := person.CertificatesV1().CertificateSigningRequests().Get(t.Context(), approved.Name, metav1.GetOptions{})
			if err != nil || !slices.ContainsFunc(csr.Status.Conditions, isOurs) {
				return false // the policy is not known yet
			}
			csr = apitest.With(csr, certificatesv1.CertificateApproved)
			csr.Status.Conditions[len(csr.Status.Conditions)-1].Message = "said " + name
			_, err = person.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), csr.Name, csr, metav1.UpdateOptions{})
			return err == nil
		})
	}
	apitest.Issued(t, admin, approved)
	apitest.Eventually(t, "the policy has denied", func() bool {
		csr, err := admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), byPolicy.Name, metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
			return c.Type == certificatesv1.CertificateDenied
		})
	})
	cr := &cmv1.CertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "denied"}, Spec: cmv1.CertificateRequestSpec{
		IssuerRef: cmmeta.IssuerReference{Name: "none"}, Request: byPerson.Spec.Request, Duration: &metav1.Duration{Duration: time.Hour},
	}}
	if err := api.Create(t.Context(), cr); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the CertificateRequest is denied", func() bool {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(cr), cr); err != nil {
			return false
		}
		cr.Status.Conditions = []cmv1.CertificateRequestCondition{{
			Type: cmv1.CertificateRequestConditionDenied, Status: cmmeta.ConditionTrue, Reason: "Unknown", Message: "nor in this form",
		}}
		err := api.Status().Update(t.Context(), cr)
		return err == nil || !apierrors.IsConflict(err) && isNil(t, err)
	})
	for _, name := range []string{byPerson.Name, approved.Name, byPolicy.Name} {
		if err := admin.CertificatesV1().CertificateSigningRequests().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}

	get := func(uid string) *inventoryv1alpha1.CertificateDecision {
		t.Helper()
		d := &inventoryv1alpha1.CertificateDecision{}
		if err := api.Get(t.Context(), client.ObjectKey{Name: uid}, d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := get(string(byPerson.UID))
	if d.Decision != "Denied" || !slices.Equal(d.Users, []string{"certplane:admin"}) || d.Reason != "Unknown" || d.Message != "nobody knows this shop" || d.Time.IsZero() ||
		!slices.Equal(d.Names, []string{"shop.example"}) || d.SignerName != "example.com/web" || d.Request.Requester != "certplane:admin" || len(d.Policies) > 0 || d.Certificate != "" {
		t.Errorf("the denial of a person is %+v", d)
	}
	var issued inventoryv1alpha1.IssuedCertificateList
	if err := api.List(t.Context(), &issued, client.MatchingFields{inventoryv1alpha1.RequestNameField: approved.Name}); err != nil || len(issued.Items) != 1 || issued.Items[0].Approval == nil {
		t.Fatalf("the approval is in %+v, %v", issued.Items, err)
	}
	record := &issued.Items[0]
	if a := record.Approval; len(a.Policies) != 1 || a.Policies[0].Name != "two" || a.Policies[0].Digest == "" || !slices.Equal(a.Approvers, []string{"alice", "bob"}) || len(a.Votes) != 2 ||
		a.Votes[0].Message != `alice approved, 1 of 2: "said alice"` || a.Votes[1].Message != `bob approved, 2 of 2: "said bob"` {
		t.Errorf("the approval of two people is %+v", a)
	}
	if record.Certificate.SignatureAlgorithm != "ECDSA-SHA256" {
		t.Errorf("it is signed with %q", record.Certificate.SignatureAlgorithm)
	}
	if d = get(string(byPolicy.UID)); len(d.Policies) != 1 || d.Policies[0].Name != "shops" || d.Policies[0].Generation != 1 || !slices.Equal(d.Users, []string{"system:serviceaccount:kube-system:policy-approver"}) {
		t.Errorf("the denial of a policy is %+v", d)
	}
	if d = get(string(cr.UID)); d.Message != "nor in this form" || d.Request.Kind != "CertificateRequest" || d.Annotations[inventoryv1alpha1.ChargedAnnotation] != "namespace/default" {
		t.Errorf("the denial of a CertificateRequest is %+v", d)
	}
	count := func(list client.ObjectList, by ...client.ListOption) int {
		t.Helper()
		if err := api.List(t.Context(), list, by...); err != nil {
			t.Fatal(err)
		}
		switch list := list.(type) {
		case *inventoryv1alpha1.CertificateDecisionList:
			return len(list.Items)
		case *inventoryv1alpha1.IssuedCertificateList:
			for _, item := range list.Items {
				if item.Certificate.Fingerprint == "" {
					t.Errorf("%s is no certificate", item.Name)
				}
			}
			return len(list.Items)
		}
		return -1
	}
	for _, tc := range []struct {
		reason string
		by     client.MatchingFields
		want   int
	}{
		{"denials", client.MatchingFields{inventoryv1alpha1.DecisionField: "Denied"}, 3},
		{"approvals", client.MatchingFields{inventoryv1alpha1.DecisionField: "Approved"}, 1},
		{"of the administrator", client.MatchingFields{inventoryv1alpha1.DecisionUserField: "certplane:admin"}, 2},
		{"about a name", client.MatchingFields{inventoryv1alpha1.NameField: "bank.example"}, 1},
	} {
		if got := count(&inventoryv1alpha1.CertificateDecisionList{}, tc.by); got != tc.want {
			t.Errorf("%d %s, want %d", got, tc.reason, tc.want)
		}
	}
	if got := count(&inventoryv1alpha1.IssuedCertificateList{}, client.MatchingFields{inventoryv1alpha1.NameField: "shop.example"}); got != 0 {
		t.Errorf("a denied request has %d certificates", got)
	}
	if got := count(&inventoryv1alpha1.IssuedCertificateList{}, client.MatchingFields{inventoryv1alpha1.DecisionUserField: "bob"}); got != 1 {
		t.Errorf("bob has approved %d certificates, want 1", got)
	}
	if err := api.DeleteAllOf(t.Context(), &inventoryv1alpha1.CertificateDecision{}); err != nil {
		t.Errorf("making room: %v", err)
	}
	if got := count(&inventoryv1alpha1.CertificateDecisionList{}); got != 1 {
		t.Errorf("%d decisions are left, want that of the certificate", got)
	}
}

func isOurs(c certificatesv1.CertificateSigningRequestCondition) bool {
	return strings.HasPrefix(string(c.Type), quorum.ConditionPrefix)
}

func isNil(t *testing.T, err error) bool {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return true
}
