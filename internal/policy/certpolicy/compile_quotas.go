package certpolicy

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// The bounds of quotas.
const (
	maxQuotas                    = 8
	maxQuotaCertificates         = 10_000
	minQuotaPeriod               = time.Minute
	maxQuotaPeriod               = 168 * time.Hour
	quotaPeriodText, quotaDetail = "must be from 1m to 168h, in whole seconds", "must be from 1 to 10000"
)

// quotas compiles the quotas of a policy.
func (c *compiler) quotas(path *field.Path, s *v1alpha1.CertificatePolicySpec) {
	if len(s.Quotas) > maxQuotas {
		c.errs = append(c.errs, field.TooMany(path, len(s.Quotas), maxQuotas))
	}
	seen := map[string]bool{}
	for i, q := range byName(s.Quotas, func(q *v1alpha1.PolicyQuota) string { return q.Name }) {
		path := path.Index(i)
		c.name(path.Child("name"), q.Name, seen)
		if q.Certificates < 1 || q.Certificates > maxQuotaCertificates {
			c.invalid(path.Child("certificates"), q.Certificates, quotaDetail)
		}
		if q.Per.Duration < minQuotaPeriod || q.Per.Duration > maxQuotaPeriod || q.Per.Duration%time.Second != 0 {
			c.invalid(path.Child("per"), q.Per.Duration.String(), quotaPeriodText)
		}
		oneOf(c.checker, path.Child("by"), q.By, v1alpha1.QuotaByRequester, v1alpha1.QuotaByNamespace, v1alpha1.QuotaByServiceAccount,
			v1alpha1.QuotaByNode, v1alpha1.QuotaByPod, v1alpha1.QuotaBySigner, v1alpha1.QuotaByPolicy)
		checkKindsWith(c.checker, q.By, s.Match.Kinds)
		c.add(withinQuota(c.policy, q))
	}
}

// kindsWith checks that all requests of a policy can belong to a node or a pod, if a
// quota counts by node or pod.
func checkKindsWith(c *checker, by v1alpha1.QuotaBy, kinds []v1alpha1.RequestKind) {
	without := map[v1alpha1.QuotaBy][]v1alpha1.RequestKind{
		v1alpha1.QuotaByNode: {v1alpha1.CertificateRequests},
		v1alpha1.QuotaByPod:  {v1alpha1.CertificateSigningRequests, v1alpha1.CertificateRequests},
	}[by]
	if len(without) == 0 {
		return
	}
	if len(kinds) == 0 || slices.ContainsFunc(kinds, func(kind v1alpha1.RequestKind) bool { return slices.Contains(without, kind) }) {
		c.required(field.NewPath("spec", "match", "kinds"), fmt.Sprintf("must be given without kinds that have no %s, as a quota is by that", by))
	}
}
