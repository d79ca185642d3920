package serviceaccount_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/apitest"
)

func TestEveryNamespaceHasAnAccount(t *testing.T) {
	s := apitest.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	apitest.NewNamespace(t, admin, "blue")
	var uid types.UID
	made := func() bool {
		account, err := admin.CoreV1().ServiceAccounts("blue").Get(t.Context(), "default", metav1.GetOptions{})
		if err != nil || account.UID == uid {
			return false
		}
		uid = account.UID
		return true
	}
	apitest.Eventually(t, "the namespace has its account", made)
	if err := admin.CoreV1().ServiceAccounts("blue").Delete(t.Context(), "default", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "it has another one after that was deleted", made)
}
