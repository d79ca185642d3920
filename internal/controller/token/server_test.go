package token_test

import (
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/apitest"
)

var (
	create = metav1.CreateOptions{}
	get    = metav1.GetOptions{}
)

// world is a server with a service account "builder" in a namespace.
type world struct {
	*apitest.Server
	admin     kubernetes.Interface
	namespace string
	account   *corev1.ServiceAccount
}

// secret creates a Secret for a token, and returns it when it has one.
func (w world) secret(t *testing.T, name, account string) *corev1.Secret {
	t.Helper()
	secrets := w.admin.CoreV1().Secrets(w.namespace)
	secret, err := secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: account}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}, create)
	if err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the Secret has a token", func() bool {
		secret, err = secrets.Get(t.Context(), name, get)
		return err == nil && len(secret.Data[corev1.ServiceAccountTokenKey]) > 0
	})
	return secret
}

// whoami returns the user that a token authenticates.
func (w world) whoami(t *testing.T, token string) (authenticationv1.UserInfo, error) {
	t.Helper()
	cfg := rest.AnonymousClientConfig(w.Admin(t))
	cfg.BearerToken = token
	review, err := apitest.Client(t, cfg).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, create)
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	return review.Status.UserInfo, nil
}

func (w world) gone(t *testing.T, name string) {
	t.Helper()
	apitest.Eventually(t, "the Secret "+name+" is gone", func() bool {
		_, err := w.admin.CoreV1().Secrets(w.namespace).Get(t.Context(), name, get)
		return apierrors.IsNotFound(err)
	})
}

func TestTokensInSecrets(t *testing.T) {
	s := apitest.Start(t)
	w := world{Server: s, admin: apitest.Client(t, s.Admin(t))}
	w.namespace = apitest.OwnNamespace(t, w.admin)
	var err error
	if w.account, err = w.admin.CoreV1().ServiceAccounts(w.namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "builder"}}, create); err != nil {
		t.Fatal(err)
	}
	t.Run("filled", w.testFilled)
	t.Run("nobody's", w.testNobody)
	t.Run("changed", w.testChanged)
	t.Run("refused to nodes", w.testNodes)
	t.Run("tracked since", w.testTracking)
	t.Run("warned of", w.testWarning)
	t.Run("gone with the account", w.testAccountGone)
}

// testFilled checks that the token is the account's, and is valid as long as
// the Secret exists.
func (w world) testFilled(t *testing.T) {
	secrets := w.admin.CoreV1().Secrets(w.namespace)
	secret := w.secret(t, "filled", "builder")
	var roots *corev1.ConfigMap
	apitest.Eventually(t, "the roots are published", func() bool {
		var err error
		roots, err = w.admin.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "kube-root-ca.crt", get)
		return err == nil
	})
	if got := secret.Annotations[corev1.ServiceAccountUIDKey]; got != string(w.account.UID) {
		t.Errorf("UID %q, want %q", got, w.account.UID)
	}
	if string(secret.Data["namespace"]) != w.namespace || string(secret.Data["ca.crt"]) != roots.Data["ca.crt"] || len(secret.Data) != 3 {
		t.Errorf("data: %q", secret.Data)
	}
	token := string(secret.Data["token"])
	got, err := w.whoami(t, token)
	if err != nil || got.Username != "system:serviceaccount:"+w.namespace+":builder" || got.UID != string(w.account.UID) {
		t.Errorf("user %+v, error %v", got, err)
	}
	if secret, err = secrets.Get(t.Context(), "filled", get); err != nil || secret.Labels["kubernetes.io/legacy-token-last-used"] == "" {
		t.Errorf("labels after its use: %v, error %v", secret.Labels, err)
	}
	review, err := w.admin.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, create)
	if err != nil || !review.Status.Authenticated {
		t.Errorf("review: %+v, error %v", review.Status, err)
	}
	if err := secrets.Delete(t.Context(), "filled", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.whoami(t, token); !apierrors.IsUnauthorized(err) {
		t.Errorf("without its Secret: %v", err)
	}
	// A client that kept the token cannot make it valid again.
	copied := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "filled", Annotations: secret.Annotations}, Data: secret.Data}
	if _, err := secrets.Create(t.Context(), copied, create); err != nil {
		t.Fatal(err)
	}
	if _, err := w.whoami(t, token); !apierrors.IsUnauthorized(err) {
		t.Errorf("from a Secret of another type: %v", err)
	}
}

// testNobody checks that there is no token for an account that does not exist.
func (w world) testNobody(t *testing.T) {
	for name, annotations := range map[string]map[string]string{
		"nobody": {corev1.ServiceAccountNameKey: "nobody"},
		"former": {corev1.ServiceAccountNameKey: "builder", corev1.ServiceAccountUIDKey: "former"},
	} {
		_, err := w.admin.CoreV1().Secrets(w.namespace).Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Type: corev1.SecretTypeServiceAccountToken,
		}, create)
		if err != nil {
			t.Fatal(err)
		}
		w.gone(t, name)
		apitest.Eventually(t, "an Event says why", func() bool {
			list, err := w.admin.CoreV1().Events(w.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
			return err == nil && len(list.Items) == 1 && list.Items[0].Reason == "ServiceAccountNotFound"
		})
	}
}

// testChanged checks a Secret whose annotation is changed to another account.
// It has no valid token of the first account.
func (w world) testChanged(t *testing.T) {
	secrets := w.admin.CoreV1().Secrets(w.namespace)
	secret := w.secret(t, "changed", "builder")
	token := string(secret.Data["token"])
	secret.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
	if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.whoami(t, token); !apierrors.IsUnauthorized(err) {
		t.Errorf("the former account's token: %v", err)
	}
	apitest.Eventually(t, "the Secret has a token of the account that it names", func() bool {
		got, err := secrets.Get(t.Context(), "changed", get)
		if err != nil {
			t.Fatal(err)
		}
		who, err := w.whoami(t, string(got.Data["token"]))
		return err == nil && who.Username == "system:serviceaccount:"+w.namespace+":default"
	})
	secret = w.secret(t, "stolen", "builder")
	secret.Annotations[corev1.ServiceAccountNameKey] = "default"
	if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.gone(t, "stolen")
}

// testNodes checks that a node can read a Secret only if one of its pods uses
// it.
func (w world) testNodes(t *testing.T) {
	w.secret(t, "kept", "builder")
	node := apitest.Client(t, w.As(t, "system:node:n1", "system:nodes"))
	if _, err := node.CoreV1().Secrets(w.namespace).Get(t.Context(), "kept", get); !apierrors.IsForbidden(err) {
		t.Errorf("a node: %v", err)
	}
}

// testTracking checks that it is known since when uses are recorded.
func (w world) testTracking(t *testing.T) {
	tracking, err := w.admin.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "kube-apiserver-legacy-service-account-token-tracking", get)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := time.Parse(time.DateOnly, tracking.Data["since"]); err != nil || len(tracking.Data) != 1 {
		t.Errorf("data: %v", tracking.Data)
	}
}

// warnings are what the API warns a client of.
type warnings []string

func (w *warnings) HandleWarningHeader(_ int, _, text string) { *w = append(*w, text) }

// testWarning checks that the API warns of a token whose Secret its account
// lists, and of no other.
func (w world) testWarning(t *testing.T) {
	token := string(w.secret(t, "listed", "builder").Data["token"])
	cfg := rest.AnonymousClientConfig(w.Admin(t))
	var got warnings
	cfg.BearerToken, cfg.WarningHandler = token, &got
	ask := func() warnings {
		got = nil
		if _, err := apitest.Client(t, cfg).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, create); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if warned := ask(); len(warned) != 0 {
		t.Errorf("a Secret that its account does not list: %q", warned)
	}
	patch := []byte(`{"secrets":[{"name":"listed"}]}`)
	if _, err := w.admin.CoreV1().ServiceAccounts(w.namespace).Patch(t.Context(), "builder", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	const want = "Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated secret-based tokens."
	if warned := ask(); len(warned) != 1 || warned[0] != want {
		t.Errorf("a Secret that its account lists: %q, want %q", warned, want)
	}
}

func (w world) testAccountGone(t *testing.T) {
	token := string(w.secret(t, "last", "builder").Data["token"])
	if err := w.admin.CoreV1().ServiceAccounts(w.namespace).Delete(t.Context(), "builder", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.gone(t, "last")
	if _, err := w.whoami(t, token); !apierrors.IsUnauthorized(err) {
		t.Errorf("without its account: %v", err)
	}
}
