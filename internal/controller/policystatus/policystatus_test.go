package policystatus

import (
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
)

// After a change, only those statuses are looked at that can follow from it.
func TestChanged(t *testing.T) {
	all := map[string]*certpolicy.Policy{}
	put := func(name, replaces string, protection *v1alpha1.PolicyProtection) {
		all[name], _, _ = certpolicy.Compile(&v1alpha1.CertificatePolicy{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.CertificatePolicySpec{Replaces: replaces, Protection: protection},
		})
	}
	var before map[string]any
	expect := func(reason, want string) {
		t.Helper()
		now := policyBases(certpolicy.SetOf(slices.Collect(maps.Values(all)), nil))
		names := changed(before, now)
		slices.Sort(names)
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %q, want %q", reason, got, want)
		}
		before = now
	}
	put("a", "", nil)
	put("b", "a", nil)
	put("c", "d", nil)
	expect("the first set", "a b c")
	expect("no change", "")
	put("a", "", nil)
	expect("another policy replaces the changed one", "a b")
	put("d", "", nil)
	expect("a policy that another replaces appears", "c d")
	put("d", "", &v1alpha1.PolicyProtection{})
	expect("proposals need other people", "a b c d")
	delete(all, "d")
	expect("the protected policy is gone", "a b c")
}
