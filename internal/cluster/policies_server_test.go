package cluster_test

import (
	"slices"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/server"
)

const apiClients = certificatesv1.KubeAPIServerClientSignerName

// policyWorld is a world whose policies the webhook enforces, in front of a
// server that does not know them.
type policyWorld struct {
	world
	objects    client.Client
	requester  kubernetes.Interface
	alice, bob kubernetes.Interface
}

// newPolicyWorld has two policies about the signer of API clients: what begins
// with web is named web-*, and what begins with admin needs two people.
func newPolicyWorld(t *testing.T) policyWorld {
	t.Helper()
	w := policyWorld{world: startIn(t, apitest.Start(t, func(c *server.Config) {
		c.Controllers = []string{}
		c.Admission.DisabledPlugins = []string{"CertificatePolicy"}
	}), "*")}
	w.objects = connect(t, w.Admin(t))
	cfg := w.config(t)
	cfg.Webhook.Serve, cfg.Webhook.BindAddress = "Always", apitest.FreeAddress(t)
	run(t, cfg)
	w.reachWebhook(t, cfg.Webhook.BindAddress)
	apitest.Eventually(t, "a policy that cannot be evaluated is refused", func() bool {
		bad := newPolicy("bad", "true", v1alpha1.CertificatePolicySpec{Effect: v1alpha1.PolicyAllow})
		return apierrors.IsInvalid(w.objects.Create(t.Context(), bad, client.DryRunAll))
	})
	w.enforce(t, newPolicy("web", `request.subject.commonName.startsWith("web")`, v1alpha1.CertificatePolicySpec{
		Effect: v1alpha1.PolicyAllow,
		Certificate: &v1alpha1.CertificateConditions{
			Subject: &v1alpha1.SubjectConditions{CommonName: &v1alpha1.CommonName{Text: v1alpha1.Text{Patterns: []string{"web-*"}}}},
			Usages:  &v1alpha1.UsageConditions{Allowed: []string{"digital signature", "key encipherment", "client auth"}},
		},
	}))
	w.enforce(t, newPolicy("two-people", `request.subject.commonName.startsWith("admin")`, v1alpha1.CertificatePolicySpec{
		Effect:   v1alpha1.PolicyLimit,
		Approval: &v1alpha1.PolicyApproval{Mode: v1alpha1.ApprovePeople, People: &v1alpha1.PeopleRequirement{Count: 2}},
	}))
	w.Grant(t, "requester", apitest.Allow("create get", "certificatesigningrequests"))
	w.requester = apitest.Client(t, w.As(t, "requester"))
	w.alice, w.bob = w.approver(t, "alice"), w.approver(t, "bob")
	return w
}

// newPolicy returns a policy about the requests to apiClients that an expression
// is true of.
func newPolicy(name, about string, spec v1alpha1.CertificatePolicySpec) *v1alpha1.CertificatePolicy {
	spec.Match = v1alpha1.PolicyMatch{
		Kinds: []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests}, Signers: []string{apiClients},
		Conditions: []v1alpha1.MatchCondition{{Name: "about", Expression: v1alpha1.CEL(about)}},
	}
	return &v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

// enforce creates a policy and waits until it is in force.
func (w policyWorld) enforce(t *testing.T, p *v1alpha1.CertificatePolicy) {
	t.Helper()
	if err := w.objects.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "policy "+p.Name+" is in force", func() bool {
		return w.objects.Get(t.Context(), client.ObjectKeyFromObject(p), p) == nil && p.Status.ObservedGeneration == p.Generation
	})
}

// approver returns a client for a user who may approve.
func (w policyWorld) approver(t *testing.T, name string) kubernetes.Interface {
	t.Helper()
	w.Grant(t, name, apitest.Allow("get update", "certificatesigningrequests certificatesigningrequests/approval"),
		rbacv1.PolicyRule{APIGroups: []string{certificatesv1.GroupName}, Resources: []string{"signers"}, ResourceNames: []string{apiClients}, Verbs: []string{"approve"}})
	return apitest.Client(t, w.As(t, name))
}

// request requests a certificate with the name of the request.
func (w policyWorld) request(t *testing.T, name string) error {
	t.Helper()
	csr := apitest.NewCSR(t, name, apiClients, pki.Subject{CommonName: name}, apitest.NewKey(t))
	_, err := w.requester.CertificatesV1().CertificateSigningRequests().Create(t.Context(), csr, metav1.CreateOptions{})
	return err
}

func (w policyWorld) get(t *testing.T, name string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	csr, err := w.admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return csr
}

// approve approves a request as kubectl does.
func (w policyWorld) approve(t *testing.T, as kubernetes.Interface, name string) error {
	t.Helper()
	_, err := as.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), name,
		apitest.With(w.get(t, name), certificatesv1.CertificateApproved), metav1.UpdateOptions{})
	return err
}

func (w policyWorld) isIssued(t *testing.T, name string) bool {
	t.Helper()
	return len(w.get(t, name).Status.Certificate) > 0
}

func (w policyWorld) isApproved(t *testing.T, name string) bool {
	t.Helper()
	return slices.ContainsFunc(w.get(t, name).Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateApproved
	})
}

// In front of a server that does not know policies, the webhook enforces them:
// what they forbid cannot be created, what they allow is approved, several
// people can approve together, and an approval that the webhook has not seen
// gets no certificate.
func TestWebhookOfPolicies(t *testing.T) {
	w := newPolicyWorld(t)
	if err := w.request(t, "webby"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `certificate policy web: subject.commonName "webby" matches none of the patterns web-*`) {
		t.Errorf("a request that the policies forbid: %v", err)
	}
	for _, name := range []string{"web-1", "admin-1", "admin-2"} {
		if err := w.request(t, name); err != nil {
			t.Fatal(err)
		}
	}
	apitest.Eventually(t, "the request that a policy allows has its certificate", func() bool { return w.isIssued(t, "web-1") })

	apitest.Eventually(t, "alice's approval is recorded", func() bool { return w.approve(t, w.alice, "admin-1") == nil })
	if w.isApproved(t, "admin-1") {
		t.Error("one person has approved what needs two")
	}
	if err := w.approve(t, w.bob, "admin-1"); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "two people have approved", func() bool { return w.isIssued(t, "admin-1") })

	w.deleteWebhooks(t)
	apitest.Eventually(t, "nothing stands in the way of one approval", func() bool {
		return w.isApproved(t, "admin-2") || w.approve(t, w.alice, "admin-2") == nil && w.isApproved(t, "admin-2")
	})
	apitest.Eventually(t, "the signer refuses", func() bool {
		return slices.ContainsFunc(w.get(t, "admin-2").Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
			return c.Type == certificatesv1.CertificateFailed && strings.Contains(c.Message, "two-people")
		})
	})
	if w.isIssued(t, "admin-2") {
		t.Error("one person was enough")
	}
}

func (w policyWorld) deleteWebhooks(t *testing.T) {
	t.Helper()
	const name = "certplane-webhook.certplane-system"
	hooks := w.admin.AdmissionregistrationV1()
	if err := hooks.MutatingWebhookConfigurations().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := hooks.ValidatingWebhookConfigurations().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// In front of such a server, too, one person with the right to it overrides a policy
// that permits it, and nobody else can say why.
func TestWebhookOfOverrides(t *testing.T) {
	w := newPolicyWorld(t)
	p := &v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: "two-people"}}
	if err := w.objects.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
		t.Fatal(err)
	}
	p.Spec.Approval.People.Override = v1alpha1.OverrideAllowed
	if err := w.objects.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the policy is in force", func() bool {
		return w.objects.Get(t.Context(), client.ObjectKeyFromObject(p), p) == nil && p.Status.ObservedGeneration == p.Generation
	})
	const writers = "writers-of-requests"
	w.Grant(t, "carol", apitest.Allow("get update patch", "certificatesigningrequests certificatesigningrequests/approval"),
		rbacv1.PolicyRule{APIGroups: []string{certificatesv1.GroupName}, Resources: []string{"signers"}, Verbs: []string{"approve"}},
		rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"certificatepolicies"}, Verbs: []string{"override"}, ResourceNames: []string{"two-people"}})
	w.Grant(t, writers, apitest.Allow("get update patch", "certificatesigningrequests"))
	carol, other := apitest.Client(t, w.As(t, "carol")), apitest.Client(t, w.As(t, writers))
	if err := w.request(t, "admin-1"); err != nil {
		t.Fatal(err)
	}
	annotate := func(as kubernetes.Interface) error {
		csr := w.get(t, "admin-1")
		csr.Annotations = map[string]string{v1alpha1.AnnotationOverride: "an outage"}
		_, err := as.CertificatesV1().CertificateSigningRequests().Update(t.Context(), csr, metav1.UpdateOptions{})
		return err
	}
	apitest.Eventually(t, "somebody without the right is refused", func() bool {
		err := annotate(other)
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), `the verb "override"`)
	})
	apitest.Eventually(t, "carol says why", func() bool { return annotate(carol) == nil })
	apitest.Eventually(t, "carol overrides the policy", func() bool { return w.approve(t, carol, "admin-1") == nil && w.isApproved(t, "admin-1") })
	apitest.Eventually(t, "there is a certificate", func() bool { return w.isIssued(t, "admin-1") })
}
