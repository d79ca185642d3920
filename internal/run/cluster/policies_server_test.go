package cluster_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/admission/certpolicy"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/server"
)

const apiClients = certificatesv1.KubeAPIServerClientSignerName

// policyWorld is a world whose policies the webhook enforces, in front of a
// server that does not know them.
type policyWorld struct {
	world
	process
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
	cfg.Webhook.Serve, cfg.Webhook.BindAddress, cfg.Policy.CheckIssued = "Always", apitest.FreeAddress(t), true
	w.process = run(t, cfg)
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
	apitest.Eventually(t, "bob approves", func() bool { return w.approve(t, w.bob, "admin-1") == nil })
	apitest.Eventually(t, "two people have approved", func() bool { return w.isIssued(t, "admin-1") })

	w.testPublishedKeys(t, "admin-1")
	w.testCertificate(t)
	w.testIssued(t)

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

// testPublishedKeys has a user without any rights verify the approvals of a request.
func (w policyWorld) testPublishedKeys(t *testing.T, name string) {
	t.Helper()
	config, err := apitest.Client(t, w.As(t, "anybody")).CoreV1().ConfigMaps(rights.ClusterNamespace).Get(t.Context(), rights.ApprovalKeys, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := policies.ParseSealKeys([]byte(config.Data[policies.SealKeysField]))
	if err != nil || len(keys) != 1 {
		t.Fatalf("%d keys are published: %v", len(keys), err)
	}
	csr := w.get(t, name)
	votes := quorum.Votes(policies.ConditionsOf(csr), request.FromCSR(csr), func(text string) (quorum.Record, error) { return quorum.Open(keys, text) })
	if len(votes) != 2 || votes[0].Username != "alice" || votes[1].Username != "bob" {
		t.Errorf("these approvals verify: %v", votes)
	}
}

// While the webhook does not answer, nobody can approve what policies are about, and
// everything else can be approved.
func TestApprovalsWithoutAnAnswer(t *testing.T) {
	w := newPolicyWorld(t)
	if err := w.request(t, "admin-1"); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the API calls the webhook that has to answer", func() bool {
		validating, err := w.admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), webhookConfiguration, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(validating.Webhooks, func(w admissionregistrationv1.ValidatingWebhook) bool { return w.Name == policies.GovernedWebhook })
		return len(validating.Webhooks[i].Rules) == 1 && strings.Contains(validating.Webhooks[i].MatchConditions[0].Expression, apiClients)
	})
	other := apitest.Create(t, w.admin, apitest.NewCSR(t, "other", "example.com/other", pki.Subject{CommonName: "other"}, apitest.NewKey(t)))
	w.process.stop()
	<-w.process.ended
	apitest.Eventually(t, "an approval is refused because the webhook does not answer", func() bool {
		err := w.approve(t, w.alice, "admin-1")
		return err != nil && strings.Contains(err.Error(), policies.GovernedWebhook)
	})
	if w.isApproved(t, "admin-1") {
		t.Error("one person has approved what needs two")
	}
	apitest.Decide(t, w.admin, other, certificatesv1.CertificateApproved)
}

// heard are the warnings that a client got.
type heard []string

func (h *heard) HandleWarningHeader(_ int, _ string, text string) { *h = append(*h, text) }

// testCertificate has the webhook tell the author of a Certificate what will
// become of the request of cert-manager's controller.
func (w policyWorld) testCertificate(t *testing.T) {
	t.Helper()
	w.enforce(t, &v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: "zone"}, Spec: v1alpha1.CertificatePolicySpec{
		Effect: v1alpha1.PolicyLimit,
		Match: v1alpha1.PolicyMatch{
			Signers: []string{"clusterissuers.cert-manager.io/ca"}, Origins: []v1alpha1.RequestOrigin{v1alpha1.OriginCertificate},
			Requesters: &v1alpha1.RequesterMatch{RequesterLists: v1alpha1.RequesterLists{ServiceAccounts: []string{"cert-manager/cert-manager"}}},
		},
		Certificate: &v1alpha1.CertificateConditions{Names: &v1alpha1.NameConditions{DNS: &v1alpha1.DNSConditions{Zones: []string{"shop.example.com"}}}},
	}})
	var told heard
	cfg := rest.CopyConfig(w.Admin(t))
	cfg.WarningHandler = &told
	as := connect(t, cfg)
	crt := &cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: cmv1.CertificateSpec{
		SecretName: "web", DNSNames: []string{"www.example.org"}, IssuerRef: cmmeta.IssuerReference{Kind: "ClusterIssuer", Name: "ca"},
	}}
	const want = `this Certificate's request would be denied: certificate policy zone: dnsNames[0] "www.example.org" is in none of the zones shop.example.com`
	if err := as.Create(t.Context(), crt); err != nil || !slices.Equal(told, heard{want}) {
		t.Errorf("a Certificate that will get none: warnings %q, error %v", told, err)
	}
	told = nil
	crt.Labels = map[string]string{"a": "b"}
	if err := as.Update(t.Context(), crt); err != nil || told != nil {
		t.Errorf("a change of its labels: warnings %q, error %v", told, err)
	}
	crt.Spec.DNSNames = append(crt.Spec.DNSNames, "www.shop.example.com")
	if err := as.Update(t.Context(), crt); err != nil || !slices.Equal(told, heard{want}) {
		t.Errorf("one more name: warnings %q, error %v", told, err)
	}
}

// testIssued has the webhook refuse what a signer of others writes, if a policy
// forbids it.
func (w policyWorld) testIssued(t *testing.T) {
	t.Helper()
	const foreign = "example.com/foreign"
	w.enforce(t, &v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}, Spec: v1alpha1.CertificatePolicySpec{
		Effect: v1alpha1.PolicyLimit, Match: v1alpha1.PolicyMatch{Signers: []string{foreign}},
		Certificate: &v1alpha1.CertificateConditions{Names: &v1alpha1.NameConditions{DNS: &v1alpha1.DNSConditions{Zones: []string{"shop.example.com"}}}},
	}})
	key, now := apitest.NewKey(t), time.Now()
	csr := apitest.Create(t, w.admin, apitest.NewCSR(t, "foreign", foreign, pki.Subject{DNSNames: []string{"a.shop.example.com"}}, key))
	csr = apitest.Decide(t, w.admin, csr, certificatesv1.CertificateApproved)
	root, err := pki.NewRoot(pki.UnrecordedSigning, "root", apitest.NewKey(t), 48*time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string) error {
		chain, err := root.Issue(pki.UnrecordedSigning, pki.Subject{DNSNames: []string{name}}, key.Public(), pki.ServerUsages(), time.Hour, now)
		if err != nil {
			t.Fatal(err)
		}
		csr.Status.Certificate = pki.EncodeCertificates(chain...)
		_, err = w.admin.CertificatesV1().CertificateSigningRequests().UpdateStatus(t.Context(), csr, metav1.UpdateOptions{})
		return err
	}
	if err := write("www.example.org"); apierrors.ReasonForError(err) != certpolicy.ReasonNotAsPermitted || !strings.Contains(err.Error(), `dnsNames[0] "www.example.org"`) {
		t.Errorf("a certificate that the policy forbids: %v", err)
	}
	if err := write("a.shop.example.com"); err != nil {
		t.Errorf("a certificate that fits: %v", err)
	}
}

func (w policyWorld) deleteWebhooks(t *testing.T) {
	t.Helper()
	const name = webhookConfiguration
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

// In front of such a server, too, a change of a protected policy needs two people,
// and it can be deleted only in the mode Off; what goes past the webhook that makes
// proposals is refused by the one that checks.
func TestWebhookOfProtection(t *testing.T) {
	w := newPolicyWorld(t)
	protected := newPolicy("protected", "true", v1alpha1.CertificatePolicySpec{
		Effect:     v1alpha1.PolicyLimit,
		Protection: &v1alpha1.PolicyProtection{People: v1alpha1.ProtectingPeople{Count: 2}},
	})
	w.enforce(t, protected)
	var told heard
	person := func(name string) client.Client {
		w.Grant(t, name, rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"*"}, Verbs: []string{"*"}},
			rbacv1.PolicyRule{APIGroups: []string{certificatesv1.GroupName}, Resources: []string{"signers"}, Verbs: []string{"approve"}})
		cfg := rest.CopyConfig(w.As(t, name))
		cfg.WarningHandler = &told
		return connect(t, cfg)
	}
	alice, bob := person("alice-writes"), person("bob-writes")
	write := func(as client.Client, mode v1alpha1.PolicyMode) v1alpha1.PolicyMode {
		t.Helper()
		told = nil
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"mode":"`+string(mode)+`"}}`))
		apitest.Eventually(t, "the policy can be written", func() bool { return as.Patch(t.Context(), protected, patch) == nil })
		return protected.Spec.Mode
	}
	if got := write(alice, v1alpha1.PolicyOff); got != v1alpha1.PolicyEnforce || !slices.Contains(told, "certificate policy protected: recorded as approval 1 of 2; 1 more is needed") {
		t.Errorf("the first write makes the mode %s, told %q", got, told)
	}
	if got := write(alice, v1alpha1.PolicyOff); got != v1alpha1.PolicyEnforce {
		t.Errorf("the same person makes it %s", got)
	}
	other := newPolicy("other", "true", v1alpha1.CertificatePolicySpec{Effect: v1alpha1.PolicyAllow, Certificate: &v1alpha1.CertificateConditions{Usages: &v1alpha1.UsageConditions{Allowed: []string{"client auth"}}}})
	if err := alice.Create(t.Context(), other); err != nil || other.Spec.Mode != v1alpha1.PolicyOff {
		t.Errorf("a new Allow for its signer has the mode %s: %v", other.Spec.Mode, err)
	}
	if err := alice.Delete(t.Context(), protected); !apierrors.IsForbidden(err) {
		t.Errorf("it can be deleted: %v", err)
	}
	hooks := w.admin.AdmissionregistrationV1().MutatingWebhookConfigurations()
	mutating, err := hooks.Get(t.Context(), webhookConfiguration, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := hooks.Delete(t.Context(), webhookConfiguration, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "what is no proposal is refused", func() bool {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"mode":"Shadow"}}`))
		err := alice.Patch(t.Context(), protected.DeepCopy(), patch)
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "certificate policy protected: 0 of 2 approvals: 2 more")
	})
	forged := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+v1alpha1.AnnotationProposals+`":"[]"}}}`))
	if err := bob.Patch(t.Context(), protected.DeepCopy(), forged); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "which only certplane writes") {
		t.Errorf("proposals are removed: %v", err)
	}
	mutating.ResourceVersion, mutating.UID = "", ""
	if _, err := hooks.Create(t.Context(), mutating, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := write(bob, v1alpha1.PolicyOff); got != v1alpha1.PolicyOff || protected.Annotations[v1alpha1.AnnotationProposals] != "" {
		t.Errorf("two people make the mode %s", got)
	}
	if err := alice.Delete(t.Context(), protected); err != nil {
		t.Errorf("it cannot be deleted in the mode Off: %v", err)
	}
}
