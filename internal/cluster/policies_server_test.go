package cluster_test

import (
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/server"
)

const apiClients = certificatesv1.KubeAPIServerClientSignerName

// policy creates a policy about the signer of API clients, and waits until it is
// in force.
func policy(t *testing.T, admin client.Client, name string, spec v1alpha1.CertificatePolicySpec) {
	t.Helper()
	spec.Match = v1alpha1.PolicyMatch{Kinds: []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests}, Signers: []string{apiClients}, Conditions: spec.Match.Conditions}
	p := &v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	if err := admin.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "policy "+name+" is in force", func() bool {
		return admin.Get(t.Context(), client.ObjectKeyFromObject(p), p) == nil && p.Status.ObservedGeneration == p.Generation
	})
}

// approve approves a request as kubectl does.
func approve(t *testing.T, as kubernetes.Interface, name string) error {
	t.Helper()
	csr, err := as.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "KubectlApprove", Message: "This CSR was approved by kubectl certificate approve.",
	})
	_, err = as.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), name, csr, metav1.UpdateOptions{})
	return err
}

// In front of a server that does not know policies, the webhook enforces them:
// what they forbid cannot be created, what they allow is approved, several
// people can approve together, and an approval that the webhook has not seen
// gets no certificate.
func TestWebhookOfPolicies(t *testing.T) {
	w := startIn(t, apitest.Start(t, func(c *server.Config) {
		c.Controllers = []string{}
		c.Admission.DisabledPlugins = []string{"CertificatePolicy"}
	}), "*")
	kinds := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(kinds); err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(w.Admin(t), client.Options{Scheme: kinds})
	if err != nil {
		t.Fatal(err)
	}
	cfg := w.config(t)
	cfg.Webhook.Serve, cfg.Webhook.BindAddress = "Always", apitest.FreeAddress(t)
	run(t, cfg)
	w.reachWebhook(t, cfg.Webhook.BindAddress)
	apitest.Eventually(t, "a policy that cannot be evaluated is refused", func() bool {
		bad := &v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: "bad"}, Spec: v1alpha1.CertificatePolicySpec{
			Effect: v1alpha1.PolicyAllow, Match: v1alpha1.PolicyMatch{Signers: []string{apiClients}},
		}}
		return apierrors.IsInvalid(admin.Create(t.Context(), bad, client.DryRunAll))
	})
	policy(t, admin, "web", v1alpha1.CertificatePolicySpec{
		Effect: v1alpha1.PolicyAllow,
		Match:  v1alpha1.PolicyMatch{Conditions: []v1alpha1.MatchCondition{{Name: "web", Expression: `request.subject.commonName.startsWith("web")`}}},
		Certificate: &v1alpha1.CertificateConditions{
			Subject: &v1alpha1.SubjectConditions{CommonName: &v1alpha1.CommonName{Text: v1alpha1.Text{Patterns: []string{"web-*"}}}},
			Usages:  &v1alpha1.UsageConditions{Allowed: []string{"digital signature", "key encipherment", "client auth"}},
		},
	})
	policy(t, admin, "two-people", v1alpha1.CertificatePolicySpec{
		Effect:   v1alpha1.PolicyLimit,
		Match:    v1alpha1.PolicyMatch{Conditions: []v1alpha1.MatchCondition{{Name: "admin", Expression: `request.subject.commonName.startsWith("admin")`}}},
		Approval: &v1alpha1.PolicyApproval{Mode: v1alpha1.ApprovePeople, People: &v1alpha1.PeopleRequirement{Count: 2}},
	})
	w.Grant(t, "requester", apitest.Allow("create get", "certificatesigningrequests"))
	requester := apitest.Client(t, w.As(t, "requester"))
	request := func(name string) error {
		csr := apitest.NewCSR(t, name, apiClients, pki.Subject{CommonName: name}, apitest.NewKey(t))
		csr.Name, csr.GenerateName = name, ""
		_, err := requester.CertificatesV1().CertificateSigningRequests().Create(t.Context(), csr, metav1.CreateOptions{})
		return err
	}
	get := func(name string) *certificatesv1.CertificateSigningRequest {
		csr, err := w.admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return csr
	}

	if err := request("webby"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `certificate policy web: subject.commonName "webby" matches none of the patterns web-*`) {
		t.Errorf("a request that the policies forbid: %v", err)
	}
	for _, name := range []string{"web-1", "admin-1", "admin-2"} {
		if err := request(name); err != nil {
			t.Fatal(err)
		}
	}
	apitest.Eventually(t, "the request that a policy allows has its certificate", func() bool { return len(get("web-1").Status.Certificate) > 0 })

	var people []kubernetes.Interface
	for _, name := range []string{"alice", "bob"} {
		w.Grant(t, name, apitest.Allow("get update", "certificatesigningrequests certificatesigningrequests/approval"),
			rbacv1.PolicyRule{APIGroups: []string{certificatesv1.GroupName}, Resources: []string{"signers"}, ResourceNames: []string{apiClients}, Verbs: []string{"approve"}})
		people = append(people, apitest.Client(t, w.As(t, name)))
	}
	apitest.Eventually(t, "alice's approval is recorded", func() bool { return approve(t, people[0], "admin-1") == nil })
	if approved := isApproved(get("admin-1")); approved {
		t.Error("one person has approved what needs two")
	}
	if err := approve(t, people[1], "admin-1"); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "two people have approved", func() bool { return len(get("admin-1").Status.Certificate) > 0 })

	hooks := w.admin.AdmissionregistrationV1()
	if err := hooks.MutatingWebhookConfigurations().Delete(t.Context(), "certplane-webhook.certplane-system", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := hooks.ValidatingWebhookConfigurations().Delete(t.Context(), "certplane-webhook.certplane-system", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "nothing stands in the way of one approval", func() bool {
		return isApproved(get("admin-2")) || approve(t, people[0], "admin-2") == nil && isApproved(get("admin-2"))
	})
	apitest.Eventually(t, "the signer refuses", func() bool {
		for _, c := range get("admin-2").Status.Conditions {
			if c.Type == certificatesv1.CertificateFailed && strings.Contains(c.Message, "two-people") {
				return true
			}
		}
		return false
	})
	if get("admin-2").Status.Certificate != nil {
		t.Error("one person was enough")
	}
}

func isApproved(csr *certificatesv1.CertificateSigningRequest) bool {
	for _, c := range csr.Status.Conditions {
		if c.Type == certificatesv1.CertificateApproved {
			return true
		}
	}
	return false
}
