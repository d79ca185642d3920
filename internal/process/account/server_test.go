package account_test

import (
	"errors"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/process/account"
)

// newAccounts returns those of the namespace "team", with requests of the
// admin.
func newAccounts(t *testing.T, own *rest.Config) *account.Accounts {
	t.Helper()
	accounts, err := account.New(account.Config{Client: own, Namespace: "team"})
	if err != nil {
		t.Fatal(err)
	}
	return accounts
}

func TestAccounts(t *testing.T) {
	server := apitest.Start(t)
	admin := apitest.Client(t, server.Admin(t))
	apitest.NewNamespace(t, admin, "team")
	create := func() string {
		worker := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
		created, err := admin.CoreV1().ServiceAccounts("team").Create(t.Context(), worker, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return string(created.UID)
	}
	first := create()
	accounts := newAccounts(t, server.Admin(t))
	cfg, err := accounts.As(t.Context(), "worker")
	if err != nil {
		t.Fatal(err)
	}
	whoami := func() (authenticationv1.UserInfo, error) {
		review, err := apitest.Client(t, cfg).AuthenticationV1().SelfSubjectReviews().
			Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		return review.Status.UserInfo, err
	}
	if who, err := whoami(); who.Username != "system:serviceaccount:team:worker" || who.UID != first {
		t.Errorf("the account is %v (%v)", who, err)
	}

	// An account by the same name that was recreated refuses the old tokens.
	if err := admin.CoreV1().ServiceAccounts("team").Delete(t.Context(), "worker", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	second := create()
	apitest.Eventually(t, "the account is used again", func() bool {
		who, err := whoami()
		return err == nil && who.UID == second
	})
}

func TestAccountThatIsMissing(t *testing.T) {
	server := apitest.Start(t)
	_, err := newAccounts(t, server.Admin(t)).As(t.Context(), "nosuch")
	var missing *account.MissingError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "team/nosuch") {
		t.Errorf("error %v", err)
	}
}

func TestAccountThatIsForbidden(t *testing.T) {
	server := apitest.Start(t)
	_, err := newAccounts(t, server.Login(t, "mallory")).As(t.Context(), "worker")
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "team/worker") {
		t.Errorf("error %v", err)
	}
}
