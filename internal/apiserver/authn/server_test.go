package authn_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/run/server"
	"github.com/certplane/certplane/internal/store/datadir"
)

// common is the server of the tests that need no settings of their own and do
// not stop it.
var common apitest.Shared

func TestMain(m *testing.M) { apitest.Main(m, &common) }

// world is a server with a service account "builder" in a namespace of the
// test's and the objects that its tokens can be bound to.
type world struct {
	*apitest.Server
	admin           kubernetes.Interface
	namespace, node string
}

func newWorld(t *testing.T, s *apitest.Server) world {
	t.Helper()
	w := world{Server: s, admin: apitest.Client(t, s.Admin(t))}
	w.namespace = apitest.OwnNamespace(t, w.admin)
	w.node = "node-of-" + w.namespace
	w.makeAccount(t)
	must(t)(w.admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.node}}, metav1.CreateOptions{}))
	must(t)(w.admin.CoreV1().Secrets(w.namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{}))
	must(t)(w.admin.CoreV1().Pods(w.namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.PodSpec{
			ServiceAccountName: "builder", NodeName: w.node,
			Containers: []corev1.Container{{Name: "c", Image: "example.com/web"}},
		},
	}, metav1.CreateOptions{}))
	return w
}

func (w world) makeAccount(t *testing.T) {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "builder"}}
	must(t)(w.admin.CoreV1().ServiceAccounts(w.namespace).Create(t.Context(), account, metav1.CreateOptions{}))
}

// must requires that a client's method returns no error.
func must(t *testing.T) func(any, error) {
	return func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// token returns a token for the account "builder" that lasts an hour.
func (w world) token(t *testing.T, spec authenticationv1.TokenRequestSpec) string {
	t.Helper()
	spec.ExpirationSeconds = ptr.To[int64](3600)
	answer, err := w.admin.CoreV1().ServiceAccounts(w.namespace).CreateToken(t.Context(), "builder",
		&authenticationv1.TokenRequest{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status.Token
}

func boundTo(kind, name string) authenticationv1.TokenRequestSpec {
	return authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: kind, Name: name}}
}

// bearer returns a client configuration whose only credential is a token.
func bearer(t *testing.T, s *apitest.Server, token string) *rest.Config {
	t.Helper()
	cfg := s.Anonymous(t)
	cfg.BearerToken = token
	return cfg
}

// whoami asks the server who the client is.
func whoami(t *testing.T, cfg *rest.Config) (authenticationv1.UserInfo, error) {
	t.Helper()
	answer, err := apitest.Client(t, cfg).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	return answer.Status.UserInfo, nil
}

func (w world) review(t *testing.T, token string, audiences ...string) authenticationv1.TokenReviewStatus {
	t.Helper()
	answer, err := w.admin.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status
}

func TestServiceAccountTokens(t *testing.T) {
	w := newWorld(t, common.Start(t))
	bindings := []struct {
		reason string
		spec   authenticationv1.TokenRequestSpec
		end    func() error // deletes what the token is bound to
	}{
		{"pod", boundTo("Pod", "web"), func() error {
			return w.admin.CoreV1().Pods(w.namespace).Delete(t.Context(), "web", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
		}},
		{"secret", boundTo("Secret", "s"), func() error {
			return w.admin.CoreV1().Secrets(w.namespace).Delete(t.Context(), "s", metav1.DeleteOptions{})
		}},
		{"node", boundTo("Node", w.node), func() error {
			return w.admin.CoreV1().Nodes().Delete(t.Context(), w.node, metav1.DeleteOptions{})
		}},
		{"account", authenticationv1.TokenRequestSpec{}, func() error {
			return w.admin.CoreV1().ServiceAccounts(w.namespace).Delete(t.Context(), "builder", metav1.DeleteOptions{})
		}},
	}
	for _, tt := range bindings {
		t.Run(tt.reason, func(t *testing.T) {
			token := w.token(t, tt.spec)
			user, err := whoami(t, bearer(t, w.Server, token))
			if err != nil {
				t.Fatal(err)
			}
			if user.Username != "system:serviceaccount:"+w.namespace+":builder" {
				t.Errorf("the user is %s", user.Username)
			}
			review := w.review(t, token)
			if !review.Authenticated || review.Error != "" {
				t.Errorf("the review is %+v", review)
			}
			if diff := cmp.Diff(user, review.User); diff != "" {
				t.Errorf("the review's user differs from the request's (-request +review):\n%s", diff)
			}

			if err := tt.end(); err != nil {
				t.Fatal(err)
			}
			apitest.Eventually(t, "the token is refused", func() bool {
				_, err := whoami(t, bearer(t, w.Server, token))
				return apierrors.IsUnauthorized(err)
			})
			review = w.review(t, token)
			if review.Authenticated || review.Error == "" || review.User.Username != "" {
				t.Errorf("afterwards the review is %+v", review)
			}
		})
	}
}

func TestUserOfPodsToken(t *testing.T) {
	w := newWorld(t, common.Start(t))
	user, err := whoami(t, bearer(t, w.Server, w.token(t, boundTo("Pod", "web"))))
	if err != nil {
		t.Fatal(err)
	}
	var extra []string
	for key, values := range user.Extra {
		value := strings.Join(values, ",")
		if strings.HasSuffix(key, "-uid") || key == "authentication.kubernetes.io/credential-id" {
			value = "..."
		}
		extra = append(extra, strings.TrimPrefix(key, "authentication.kubernetes.io/")+"="+value)
	}
	slices.Sort(extra)
	want := []string{"credential-id=...", "node-name=" + w.node, "node-uid=...", "pod-name=web", "pod-uid=..."}
	if diff := cmp.Diff(want, extra); diff != "" {
		t.Errorf("extra (-want +got):\n%s", diff)
	}
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + w.namespace, "system:authenticated"}
	if diff := cmp.Diff(groups, user.Groups); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

// A new service account of the same name is another user.
func TestAccountMadeAnew(t *testing.T) {
	w := newWorld(t, common.Start(t))
	token := w.token(t, authenticationv1.TokenRequestSpec{})
	if err := w.admin.CoreV1().ServiceAccounts(w.namespace).Delete(t.Context(), "builder", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.makeAccount(t)
	// The new account's token proves that the server has seen the change.
	fresh := w.token(t, authenticationv1.TokenRequestSpec{})
	if _, err := whoami(t, bearer(t, w.Server, fresh)); err != nil {
		t.Errorf("the new account's token is refused: %v", err)
	}
	apitest.Eventually(t, "the former account's token is refused", func() bool {
		_, err := whoami(t, bearer(t, w.Server, token))
		return apierrors.IsUnauthorized(err)
	})
}

func TestTokensForOthers(t *testing.T) {
	w := newWorld(t, common.Start(t))
	token := w.token(t, authenticationv1.TokenRequestSpec{Audiences: []string{"vault"}})
	if _, err := whoami(t, bearer(t, w.Server, token)); !apierrors.IsUnauthorized(err) {
		t.Errorf("a token for somebody else is answered with %v", err)
	}
	if review := w.review(t, token); review.Authenticated || !strings.Contains(review.Error, "vault") {
		t.Errorf("a review for this server says %+v", review)
	}
	review := w.review(t, token, "vault", "db")
	if !review.Authenticated || !cmp.Equal(review.Audiences, []string{"vault"}) {
		t.Errorf("a review for vault says %+v", review)
	}
}

// Tokens remain valid after a restart: the key is stored.
func TestTokensAfterRestart(t *testing.T) {
	w := newWorld(t, apitest.Start(t))
	token := w.token(t, authenticationv1.TokenRequestSpec{})
	w.Restart(t)
	if _, err := whoami(t, bearer(t, w.Server, token)); err != nil {
		t.Errorf("after a restart the token is refused: %v", err)
	}
}

func TestBadTokens(t *testing.T) {
	s := common.Start(t)
	for reason, token := range map[string]string{
		"nothing known":     "what",
		"a bootstrap token": "abcdef.0123456789abcdef",
		"a JWT":             "eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2t1YmVybmV0ZXMuZGVmYXVsdC5zdmMifQ.",
	} {
		if _, err := whoami(t, bearer(t, s, token)); !apierrors.IsUnauthorized(err) {
			t.Errorf("%s is answered with %v", reason, err)
		}
	}
}

// A probe with an invalid credential must not be treated like one without a
// credential.
func TestBadTokensOnOpenPaths(t *testing.T) {
	s := common.Start(t)
	path := func(cfg *rest.Config) error {
		return apitest.Client(t, cfg).Discovery().RESTClient().Get().AbsPath("/readyz").Do(t.Context()).Error()
	}
	if err := path(s.Anonymous(t)); err != nil {
		t.Error(err)
	}
	if err := path(bearer(t, s, "what")); !apierrors.IsUnauthorized(err) {
		t.Errorf("a bad token is answered with %v", err)
	}
}

func TestBootstrapTokens(t *testing.T) {
	s := common.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	secret := func(id string, end time.Time) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id},
			Type:       "bootstrap.kubernetes.io/token",
			StringData: map[string]string{
				"token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
				"auth-extra-groups": "system:bootstrappers:rack-7", "expiration": end.Format(time.RFC3339),
			},
		}
	}
	for id, end := range map[string]time.Time{"abcdef": time.Now().Add(time.Hour), "expird": time.Now().Add(-time.Hour)} {
		must(t)(admin.CoreV1().Secrets("kube-system").Create(t.Context(), secret(id, end), metav1.CreateOptions{}))
	}
	defer admin.CoreV1().Secrets("kube-system").Delete(t.Context(), "bootstrap-token-expird", metav1.DeleteOptions{})
	login := bearer(t, s, "abcdef.0123456789abcdef")
	apitest.Eventually(t, "the token is known", func() bool { _, err := whoami(t, login); return err == nil })
	user, err := whoami(t, login)
	if err != nil {
		t.Fatal(err)
	}
	want := authenticationv1.UserInfo{
		Username: "system:bootstrap:abcdef",
		Groups:   []string{"system:bootstrappers", "system:bootstrappers:rack-7", "system:authenticated"},
	}
	if diff := cmp.Diff(want, user); diff != "" {
		t.Errorf("user (-want +got):\n%s", diff)
	}
	if _, err := whoami(t, bearer(t, s, "expird.0123456789abcdef")); !apierrors.IsUnauthorized(err) {
		t.Errorf("an expired token is answered with %v", err)
	}
	if err := admin.CoreV1().Secrets("kube-system").Delete(t.Context(), "bootstrap-token-abcdef", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the token is refused", func() bool { _, err := whoami(t, login); return apierrors.IsUnauthorized(err) })
}

func TestNodeBootstrapSwitch(t *testing.T) {
	s := apitest.Start(t, func(c *server.Config) { c.Authentication.Bootstrap.Nodes = false })
	allowed := func(group, subresource string) bool {
		return s.Allowed(t, "somebody", []string{group}, authorizationv1.ResourceAttributes{
			Verb: "create", Group: "certificates.k8s.io", Resource: "certificatesigningrequests", Subresource: subresource,
		})
	}
	check := func(want bool) {
		t.Helper()
		for _, right := range []struct{ group, subresource string }{
			{"system:bootstrappers", ""}, {"system:bootstrappers", "nodeclient"}, {"system:nodes", "selfnodeclient"},
		} {
			apitest.Eventually(t, fmt.Sprintf("%v is %v", right, want), func() bool {
				return allowed(right.group, right.subresource) == want
			})
		}
	}
	check(false)
	s.Config.Authentication.Bootstrap.Nodes = true
	s.Restart(t)
	check(true)
	if allowed("system:bootstrappers", "selfnodeclient") {
		t.Error("whoever bootstraps can renew the certificates of nodes")
	}
	s.Config.Authentication.Bootstrap.Nodes = false
	s.Restart(t)
	check(false)
}

// A token of a former key and issuer remains valid until it expires, if the
// configuration allows it.
func TestFormerIssuer(t *testing.T) {
	w := newWorld(t, apitest.Start(t))
	token := w.token(t, authenticationv1.TokenRequestSpec{Audiences: []string{"api"}})
	former := filepath.Join(t.TempDir(), "former.key")
	if err := os.Rename(filepath.Join(datadir.Dir(w.Config.DataDir).PKI(), "service-account.key"), former); err != nil {
		t.Fatal(err)
	}
	accounts := &w.Config.Authentication.ServiceAccounts
	accounts.Issuer, accounts.APIAudiences = "https://certplane.example", []string{"api"}
	w.Config.NewPKI = true
	w.Restart(t)
	w.Config.NewPKI = false
	if _, err := whoami(t, bearer(t, w.Server, token)); !apierrors.IsUnauthorized(err) {
		t.Errorf("a token of another issuer is answered with %v", err)
	}
	accounts.FormerIssuers, accounts.FormerKeyFiles = []string{"https://kubernetes.default.svc"}, []string{former}
	w.Restart(t)
	if _, err := whoami(t, bearer(t, w.Server, token)); err != nil {
		t.Errorf("a token of a former issuer is refused: %v", err)
	}
}
