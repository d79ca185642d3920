package cases

import (
	"fmt"
	"slices"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
)

// quotas returns the used part of quotas: none, unless the case sets it. Its requests
// were permitted just before.
func (c *testCase) quotas(all []certpolicy.Quota, now time.Time) map[certpolicy.Quota]certpolicy.QuotaUse {
	uses := map[certpolicy.Quota]certpolicy.QuotaUse{}
	for _, q := range all {
		var use certpolicy.QuotaUse
		for _, said := range c.spec.Quotas {
			if said.Policy == q.Policy && said.Name == q.Name {
				use = certpolicy.QuotaUse{Used: said.Used, Counted: said.Counted}
			}
		}
		if use.Used >= q.Certificates {
			use.Again = now.Add(q.Per)
		}
		uses[q] = use
	}
	return uses
}

// checkQuotas checks that the policies of the test have the quotas.
func (t *test) checkQuotas(said []v1alpha1.PolicyTestQuota) error {
	for _, one := range said {
		policy := t.policies.Set().Policy(one.Policy)
		has := policy != nil && slices.ContainsFunc(policy.Spec().Quotas, func(q v1alpha1.PolicyQuota) bool { return q.Name == one.Name })
		if !has {
			return fmt.Errorf("no policy %q has a quota %q", one.Policy, one.Name)
		}
	}
	return nil
}
