package policies_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/request"
)

// wakes is a request that waits for a change of what a policy reads.
type wakes struct {
	by     string
	user   string
	match  v1alpha1.PolicyMatch
	before func(*fixture)
	change func(*fixture)
}

var wakeCases = []wakes{
	{
		by: "namespace", user: "system:serviceaccount:wake:web",
		match:  v1alpha1.PolicyMatch{Namespaces: &v1alpha1.NamespaceMatch{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "web"}}}},
		before: func(f *fixture) { apitest.NewNamespace(f, f.api, "wake") },
		change: func(f *fixture) {
			f.label(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "wake"}}, "team", "web")
		},
	},
	{
		by: "node", user: "system:node:n1",
		match: v1alpha1.PolicyMatch{Conditions: []v1alpha1.MatchCondition{{Name: "edge", Expression: "node.metadata.labels[?'role'].orValue('') == 'edge'"}}},
		before: func(f *fixture) {
			f.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"role": "core"}}})
		},
		change: func(f *fixture) { f.label(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, "role", "edge") },
	},
	{
		by: "access", user: "carol",
		match: v1alpha1.PolicyMatch{Access: []v1alpha1.AccessMatch{{Verb: "use"}}},
		change: func(f *fixture) {
			f.create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "wake"}, Rules: []rbacv1.PolicyRule{{
				Verbs: []string{"use"}, APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"certificatepolicies"}, ResourceNames: []string{"wake-access"},
			}}})
			f.create(&rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "wake"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "wake"},
				Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "carol"}},
			})
		},
	},
}

// label sets a label of an object.
func (f *fixture) label(object client.Object, key, value string) {
	f.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, key, value))
	if err := f.objects.Patch(f.Context(), object, patch); err != nil {
		f.Fatal(err)
	}
}

// metrics returns the metrics of the server.
func (f *fixture) metrics() string {
	f.Helper()
	metrics, err := f.api.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	return string(metrics)
}

// metric waits until the metrics have a line.
func (f *fixture) metric(line string) {
	f.Helper()
	apitest.Eventually(f, "the metrics have "+line, func() bool { return strings.Contains(f.metrics(), line+"\n") })
}

// A request that no policy was about is approved soon after a change of what
// policies read, long before it would be looked at again: the label of a Namespace
// or of a Node, the owner, a right.
func TestChangesOfFactsWake(t *testing.T) {
	f := startAlone(t)
	f.create(&cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: ownIssuer}, Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{SelfSigned: &cmv1.SelfSignedIssuer{}}}})
	for _, tc := range wakeCases {
		t.Run(tc.by, func(t *testing.T) {
			f := &fixture{t, f.server, f.objects, f.api}
			signer := "example.com/wake-" + tc.by
			f.policy("wake-"+tc.by, func(s *v1alpha1.CertificatePolicySpec) { s.Match, s.Match.Signers = tc.match, []string{signer} })
			if tc.before != nil {
				tc.before(f)
			}
			f.server.Grant(t, tc.user, apitest.Allow("create", "certificatesigningrequests"))
			as := apitest.Client(t, f.server.As(t, tc.user))
			csr := apitest.Create(t, as, apitest.NewCSR(t, "web-"+tc.by, signer, pki.Subject{CommonName: "web-1"}, apitest.NewKey(t)))
			f.metric(fmt.Sprintf(`certplane_policy_decisions_total{kind="CertificateSigningRequest",outcome="Leave",signer="%s",stage="Approver"} 1`, signer))
			queue := f.watchedAlone(csr)
			tc.change(f)
			f.condition(csr, "Approved")
			apitest.Eventually(t, "the request is woken", func() bool { return queue.Len() > 0 })
			if woken, _ := queue.Get(); woken.Name != csr.Name {
				t.Errorf("woken is %s", woken)
			}
		})
	}
	t.Run("owner", func(t *testing.T) {
		f := &fixture{t, f.server, f.objects, f.api}
		f.policy("wake-owner", func(s *v1alpha1.CertificatePolicySpec) {
			s.Effect, s.Certificate = v1alpha1.PolicyLimit, nil
			s.Match.Kinds = []v1alpha1.RequestKind{v1alpha1.CertificateRequests}
			s.Match.Signers = []string{"clusterissuers.cert-manager.io/" + ownIssuer}
			s.Match.Conditions = []v1alpha1.MatchCondition{{Name: "untrusted", Expression: "owner.metadata.labels[?'trusted'].orValue('') != 'yes'"}}
			s.Approval = &v1alpha1.PolicyApproval{Mode: v1alpha1.ApprovePeople, People: &v1alpha1.PeopleRequirement{Count: 2}}
		})
		crt := certificateFor("wake", "www.shop.example.com")
		crt.Labels = map[string]string{"trusted": "no"}
		f.create(crt)
		list := &cmv1.CertificateRequestList{}
		apitest.Eventually(t, "its request is there", func() bool { return f.objects.List(t.Context(), list) == nil && len(list.Items) == 1 })
		f.requestHas(&list.Items[0], "certplane.dev/awaiting-approval")
		f.label(crt, "trusted", "yes")
		f.requestHas(&list.Items[0], cmv1.CertificateRequestConditionApproved)
	})
}

// watchedAlone returns a queue that gets a request when Policies of its own, which
// have decided about it, are told that something has changed.
func (f *fixture) watchedAlone(csr *certificatesv1.CertificateSigningRequest) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	f.Helper()
	p, err := policies.New(policies.Config{API: f.server.Admin(f), KeepAnswers: true, Settings: policies.DefaultSettings(), Defined: true})
	if err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(f.Context())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	f.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			f.Error(err)
		}
		queue.ShutDown()
		p.Close()
	})
	if !p.WaitUntilKnown(f.Context()) {
		f.Fatal("no policies")
	}
	p.Undecided().Wake(ctx, v1alpha1.CertificateSigningRequests, queue)
	apitest.Eventually(f, "the request is left", func() bool {
		action := p.Next(f.Context(), request.FromCSR(csr), nil)
		return action.Decision != nil && action.Decision.Outcome == v1alpha1.OutcomeLeave
	})
	return queue
}
