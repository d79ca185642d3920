package issuance

import (
	"cmp"
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// Surplus returns the requests of past certificates to delete, the oldest
// first: all but the last spec.revisionHistoryLimit, which is 1 if it is not
// set. A Certificate that is not ready keeps all requests, so that the operator
// can inspect them. The request for the next certificate is not one of a past
// certificate.
func Surplus(crt *cmv1.Certificate, own []*cmv1.CertificateRequest) []*cmv1.CertificateRequest {
	if !isReady(crt) || crt.Status.Revision == nil {
		return nil
	}
	var past []*cmv1.CertificateRequest
	for _, cr := range own {
		if revision, ok := Revision(cr); ok && revision <= *crt.Status.Revision {
			past = append(past, cr)
		}
	}
	slices.SortStableFunc(past, func(a, b *cmv1.CertificateRequest) int {
		x, _ := Revision(a)
		y, _ := Revision(b)
		return cmp.Compare(x, y)
	})
	return past[:max(0, len(past)-limit(crt))]
}

func isReady(crt *cmv1.Certificate) bool {
	ready := certmanager.CertificateCondition(crt, cmv1.CertificateConditionReady)
	return ready != nil && ready.Status == cmmeta.ConditionTrue
}

func limit(crt *cmv1.Certificate) int {
	if crt.Spec.RevisionHistoryLimit == nil {
		return 1
	}
	return max(1, int(*crt.Spec.RevisionHistoryLimit))
}
