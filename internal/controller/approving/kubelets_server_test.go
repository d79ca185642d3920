package approving_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

const signerName = certificatesv1.KubeAPIServerClientKubeletSignerName

type csr = certificatesv1.CertificateSigningRequest

// world is a server and its administrator.
type world struct {
	*apitest.Server
	admin kubernetes.Interface
}

func TestServer(t *testing.T) {
	s := apitest.Start(t)
	w := world{Server: s, admin: apitest.Client(t, s.Admin(t))}
	t.Run("approves", w.testApproves)
	t.Run("leaves to a person", w.testLeaves)
	t.Run("permission granted late", w.testLatePermission)
	t.Run("rights", w.testRights)
}

// permit lets a user create requests, and create the subresources that stand
// for the permission to have them approved.
func (w world) permit(t *testing.T, user string, subresources ...string) {
	t.Helper()
	rules := []rbacv1.PolicyRule{apitest.Allow("create get", "certificatesigningrequests")}
	for _, s := range subresources {
		rules = append(rules, apitest.Allow("create", "certificatesigningrequests/"+s))
	}
	w.Grant(t, user, rules...)
}

// ask creates a request for a node's client certificate as a user.
func (w world) ask(t *testing.T, user, name, commonName, signer string) *csr {
	t.Helper()
	subject := pki.Subject{CommonName: commonName, Organizations: []string{"system:nodes"}}
	request := apitest.NewCSR(t, name, signer, subject, apitest.NewKey(t))
	return apitest.Create(t, apitest.Client(t, w.As(t, user)), request)
}

func (w world) testApproves(t *testing.T) {
	tests := []struct {
		reason, user, commonName, subresource, message string
	}{
		{
			"a node for itself", "system:node:n1", "system:node:n1", "selfnodeclient",
			"Auto approving self kubelet client certificate after SubjectAccessReview.",
		},
		{
			"somebody for a node", "installer", "system:node:n2", "nodeclient",
			"Auto approving kubelet client certificate after SubjectAccessReview.",
		},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w.permit(t, tc.user, tc.subresource)
			created := w.ask(t, tc.user, "approved-"+tc.subresource, tc.commonName, signerName)
			approved := w.decided(t, created.Name)
			want := []certificatesv1.CertificateSigningRequestCondition{
				{Type: "Approved", Status: "True", Reason: "AutoApproved", Message: tc.message},
			}
			if diff := cmp.Diff(want, approved.Status.Conditions[:1], cmpopts.IgnoreTypes(metav1.Time{})); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if got := approved.Status.Conditions[0]; got.LastUpdateTime.IsZero() || got.LastTransitionTime.IsZero() {
				t.Errorf("times are %v and %v", got.LastUpdateTime, got.LastTransitionTime)
			}
		})
	}
}

// decided waits until a request has a condition.
func (w world) decided(t *testing.T, name string) *csr {
	t.Helper()
	var got *csr
	apitest.Eventually(t, name+" is decided", func() bool {
		got = w.get(t, name)
		return len(got.Status.Conditions) > 0
	})
	return got
}

func (w world) get(t *testing.T, name string) *csr {
	t.Helper()
	got, err := w.admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// testLeaves checks that requests that are not for the approver stay undecided.
// Where a requester could think otherwise, an Event says why the request is not
// for the approver.
func (w world) testLeaves(t *testing.T) {
	w.permit(t, "nobody")
	w.permit(t, "somebody", "nodeclient", "selfnodeclient")
	tests := []struct {
		name, user, commonName, signer string
		event                          string
	}{
		{"not-permitted", "nobody", "system:node:n3", signerName, "NotPermitted: Left for approval by hand: user \"nobody\" may not create certificatesigningrequests/nodeclient; to have such requests approved, bind ClusterRole system:certificates.k8s.io:certificatesigningrequests:nodeclient to the user or to a group of it"},
		{"not-a-node", "somebody", "n3", signerName, "NotRecognised: Left for approval by hand: not a kubelet's request for its client certificate: subject common name does not begin with system:node:"},
		{"another-signer", "somebody", "system:node:n3", certificatesv1.KubeAPIServerClientSignerName, ""},
	}
	for _, tc := range tests {
		w.ask(t, tc.user, tc.name, tc.commonName, tc.signer)
	}
	for _, tc := range tests {
		if tc.event != "" {
			apitest.Eventually(t, tc.name+" is told of", func() bool { return slices.Contains(w.events(t, tc.name), tc.event) })
		}
	}
	// The approver works in the order in which it receives requests. Once it
	// has decided one request more than it has workers, it has looked at all
	// earlier ones.
	for i := range w.Config.Approval.Concurrency + 1 {
		name := "after-the-others-" + string(rune('a'+i))
		w.ask(t, "somebody", name, "system:node:n4", signerName)
		w.decided(t, name)
	}
	for _, tc := range tests {
		if got := w.get(t, tc.name).Status.Conditions; len(got) > 0 {
			t.Errorf("%s has conditions %v", tc.name, got)
		}
		var want []string
		if tc.event != "" {
			want = []string{tc.event}
		}
		if diff := cmp.Diff(want, w.events(t, tc.name)); diff != "" {
			t.Errorf("events of %s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// events returns the approver's Events about a request.
func (w world) events(t *testing.T, name string) []string {
	t.Helper()
	list, err := w.admin.EventsV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "regarding.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	list.Items = slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool { return e.ReportingController != "certplane.dev/csr-approver" })
	var all []string
	for _, e := range list.Items {
		all = append(all, e.Reason+": "+e.Note)
	}
	return all
}

// testLatePermission checks that a permission that comes after the request is
// enough.
func (w world) testLatePermission(t *testing.T) {
	created := w.ask(t, "nobody", "late", "system:node:n5", signerName)
	apitest.Eventually(t, "the request is refused", func() bool { return len(w.events(t, created.Name)) > 0 })
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "late"},
		RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: "system:certificates.k8s.io:certificatesigningrequests:nodeclient"},
		Subjects:   []rbacv1.Subject{{Kind: "User", Name: "nobody"}},
	}
	if _, err := w.admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.decided(t, created.Name)
}

// testRights checks that the approver has only the rights that it needs.
func (w world) testRights(t *testing.T) {
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"}
	tests := []struct {
		verb, group, resource, name string
		want                        bool
	}{
		{"approve", certificatesv1.GroupName, "signers", signerName, true},
		{"update", certificatesv1.GroupName, "certificatesigningrequests/approval", "x", true},
		{"create", authorizationv1.GroupName, "subjectaccessreviews", "", true},

		{"approve", certificatesv1.GroupName, "signers", "kubernetes.io/*", false},
		{"approve", certificatesv1.GroupName, "signers", certificatesv1.KubeAPIServerClientSignerName, false},
		{"approve", certificatesv1.GroupName, "signers", certificatesv1.KubeletServingSignerName, false},
		{"sign", certificatesv1.GroupName, "signers", signerName, false},
		{"update", certificatesv1.GroupName, "certificatesigningrequests/status", "x", false},
		{"update", certificatesv1.GroupName, "certificatesigningrequests", "x", false},
		{"create", certificatesv1.GroupName, "certificatesigningrequests", "", false},
		{"create", certificatesv1.GroupName, "certificatesigningrequests/nodeclient", "", false},
		{"delete", certificatesv1.GroupName, "certificatesigningrequests", "x", false},
		{"get", "", "secrets", "x", false},
	}
	for _, tc := range tests {
		resource, subresource, _ := strings.Cut(tc.resource, "/")
		got := w.Allowed(t, "system:serviceaccount:kube-system:csr-approver", groups, authorizationv1.ResourceAttributes{
			Verb: tc.verb, Group: tc.group, Resource: resource, Subresource: subresource, Name: tc.name,
		})
		if got != tc.want {
			t.Errorf("csr-approver may %s %s %q: %v, want %v", tc.verb, tc.resource, tc.name, got, tc.want)
		}
	}
}
