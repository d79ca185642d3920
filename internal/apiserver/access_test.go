package apiserver_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/apitest"
)

func TestAccess(t *testing.T) {
	w := start(t)
	t.Run("anonymous", w.testAnonymous)
	t.Run("forged identity", w.testForgedIdentity)
	t.Run("metrics", w.testMetrics)
	t.Run("impersonation", w.testImpersonation)
	t.Run("right to impersonate", w.testRightToImpersonate)
}

// testAnonymous: only the health endpoints can be read without credentials.
func (w world) testAnonymous(t *testing.T) {
	tests := map[int][]string{
		http.StatusOK: {"/livez", "/readyz", "/healthz", "/version", "/livez?verbose"},
		http.StatusUnauthorized: {
			"/", "/api", "/api/v1", "/apis", "/apis/certificates.k8s.io", "/apis/certificates.k8s.io/v1",
			path(v1), path(v1, "x"), path(v1beta1), "/apis/rbac.authorization.k8s.io/v1/clusterroles",
			"/metrics", "/metrics/slis", "/openapi/v2", "/openapi/v3", "/configz", "/debug/pprof/", "/logs", "/nothing",
			// Paths that resemble the open ones.
			"/livez/ping", "/readyz/etcd", "/healthz/", "/livez/../metrics", "/livez/..%2fmetrics", "//metrics", "/version/../apis", "/LIVEZ",
		},
	}
	for want, paths := range tests {
		for _, path := range paths {
			if got := w.send(t, w.Anonymous(t), call{path: path}); got.code != want {
				t.Errorf("%s: %d, want %d: %.100s", path, got.code, want, got.body)
			}
		}
	}
	got := w.send(t, w.Anonymous(t), call{path: path(v1), header: map[string]string{"Content-Type": "application/json"}, body: []byte("{}")})
	if !apierrors.IsUnauthorized(got.err()) {
		t.Errorf("creating: %v", got.err())
	}
}

// testForgedIdentity: identities that a client claims are ignored, and an
// invalid credential is not treated like a missing one.
func (w world) testForgedIdentity(t *testing.T) {
	tests := []struct {
		reason string
		cfg    *rest.Config
		header map[string]string
		want   int
	}{
		{"unknown token", w.Anonymous(t), map[string]string{"Authorization": "Bearer nonsense"}, http.StatusUnauthorized},
		{"empty token", w.Anonymous(t), map[string]string{"Authorization": "Bearer "}, http.StatusUnauthorized},
		{"password", w.Anonymous(t), map[string]string{"Authorization": "Basic YWRtaW46YWRtaW4="}, http.StatusUnauthorized},
		{"front proxy's headers", w.Anonymous(t), map[string]string{"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}, http.StatusUnauthorized},
		{"impersonating without an identity", w.Anonymous(t), map[string]string{"Impersonate-User": "admin", "Impersonate-Group": "system:masters"}, http.StatusUnauthorized},
		{"front proxy's headers of a user", w.Login(t, "bob"), map[string]string{"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}, http.StatusForbidden},
		{"a user", w.Login(t, "bob"), nil, http.StatusForbidden},
		{"the group behind the user's name", w.Login(t, "system:masters"), nil, http.StatusForbidden},
		{"administrator", w.Login(t, "bob", "system:masters"), nil, http.StatusOK},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			if got := w.send(t, tc.cfg, call{path: path(v1), header: tc.header}); got.code != tc.want {
				t.Errorf("%d, want %d: %s", got.code, tc.want, got.body)
			}
		})
	}
	got := w.send(t, w.Anonymous(t), call{path: "/livez", header: map[string]string{"Authorization": "Bearer nonsense"}})
	if got.code != http.StatusUnauthorized {
		t.Errorf("/livez with an unknown token: %d, want 401: a client must notice that its token is worth nothing", got.code)
	}
}

// testMetrics: metrics contain information about users and requests.
func (w world) testMetrics(t *testing.T) {
	for user, want := range map[*rest.Config]int{
		w.Login(t, "bob"):                          http.StatusForbidden,
		w.Login(t, "monitor", "system:monitoring"): http.StatusOK,
	} {
		got := w.send(t, user, call{path: "/metrics"})
		if got.code != want || want == http.StatusOK && !strings.Contains(string(got.body), "apiserver_request_total{") {
			t.Errorf("%d, want %d", got.code, want)
		}
		if got := w.send(t, user, call{path: "/statusz", header: map[string]string{"Accept": "text/plain"}}); got.code != want {
			t.Errorf("/statusz: %d, want %d: %s", got.code, want, got.body)
		}
	}
}

func (w world) testImpersonation(t *testing.T) {
	w.Grant(t, "alice", apitest.Allow("create", requests))
	alice := w.Admin(t)
	alice.Impersonate = rest.ImpersonationConfig{UserName: "alice", UID: "1234"}
	request := newCSR(t, "impersonated")
	got := apitest.Create(t, apitest.Client(t, alice), request)
	want := certificatesv1.CertificateSigningRequestSpec{
		Request: request.Spec.Request, SignerName: signerName, Usages: request.Spec.Usages,
		Username: "alice", UID: "1234", Groups: []string{"system:authenticated"},
	}
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

// testRightToImpersonate: each part of another identity requires its own right.
func (w world) testRightToImpersonate(t *testing.T) {
	w.Grant(t, "actor",
		rbacv1.PolicyRule{Verbs: []string{"impersonate"}, APIGroups: []string{""}, Resources: []string{"users"}, ResourceNames: []string{"carol"}},
		rbacv1.PolicyRule{Verbs: []string{"impersonate"}, APIGroups: []string{""}, Resources: []string{"groups"}, ResourceNames: []string{"zoo"}},
	)
	tests := []struct {
		reason string
		as     rest.ImpersonationConfig
		want   string // the refusal
	}{
		{"user", rest.ImpersonationConfig{UserName: "carol"}, ""},
		{"user and group", rest.ImpersonationConfig{UserName: "carol", Groups: []string{"zoo"}}, ""},
		{"another user", rest.ImpersonationConfig{UserName: "alice"}, `users "alice" is forbidden: User "actor" cannot impersonate resource "users" in API group "" at the cluster scope`},
		{"another group", rest.ImpersonationConfig{UserName: "carol", Groups: []string{"system:masters"}}, `groups "system:masters" is forbidden: User "actor" cannot impersonate resource "groups" in API group "" at the cluster scope`},
		{"UID", rest.ImpersonationConfig{UserName: "carol", UID: "1"}, `uids.authentication.k8s.io "1" is forbidden: User "actor" cannot impersonate resource "uids" in API group "authentication.k8s.io" at the cluster scope`},
		{"extra", rest.ImpersonationConfig{UserName: "carol", Extra: map[string][]string{"a": {"b"}}}, `userextras.authentication.k8s.io "b" is forbidden: User "actor" cannot impersonate resource "userextras/a" in API group "authentication.k8s.io" at the cluster scope`},
		{"service account", rest.ImpersonationConfig{UserName: "system:serviceaccount:kube-system:csr-signer"}, `serviceaccounts "csr-signer" is forbidden: User "actor" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "kube-system"`},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			actor := w.Login(t, "actor")
			actor.Impersonate = tc.as
			review, err := apitest.Client(t, actor).AuthenticationV1().SelfSubjectReviews().
				Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
			if tc.want == "" && (err != nil || review.Status.UserInfo.Username != tc.as.UserName) {
				t.Errorf("%v, %v", review, err)
			}
			if tc.want != "" && (!apierrors.IsForbidden(err) || err.Error() != tc.want) {
				t.Errorf("got %v\nwant %s", err, tc.want)
			}
		})
	}
}
