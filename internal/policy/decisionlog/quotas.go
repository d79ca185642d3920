package decisionlog

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
)

// quotaFact returns how much of a quota was used.
func quotaFact(q certpolicy.Quota, use certpolicy.QuotaUse) *v1alpha1.DecisionQuota {
	fact := &v1alpha1.DecisionQuota{
		Policy: q.Policy, Name: q.Name, By: q.By, Key: q.Key, Certificates: q.Certificates, Per: metav1.Duration{Duration: q.Per},
		Used: use.Used, Counted: use.Counted,
	}
	if !use.Again.IsZero() {
		fact.Again = new(metav1.NewTime(use.Again))
	}
	return fact
}

// compareQuotas compares quotas of the facts of one decision by their names.
func compareQuotas(a, b *v1alpha1.DecisionQuota) int {
	if a == nil || b == nil {
		return 0
	}
	return cmp.Or(cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Certificates, b.Certificates), cmp.Compare(a.Per.Duration, b.Per.Duration), cmp.Compare(a.By, b.By))
}

// readQuota reads how much of a quota was used.
func readQuota(fact *v1alpha1.DecisionQuota, facts *certpolicy.Facts) {
	use := certpolicy.QuotaUse{Used: fact.Used, Counted: fact.Counted}
	if fact.Again != nil {
		use.Again = fact.Again.Time
	}
	if facts.Quotas == nil {
		facts.Quotas = map[certpolicy.Quota]certpolicy.QuotaUse{}
	}
	facts.Quotas[certpolicy.Quota{
		Policy: fact.Policy, Name: fact.Name, By: fact.By, Key: fact.Key, Certificates: fact.Certificates, Per: fact.Per.Duration,
	}] = use
}
