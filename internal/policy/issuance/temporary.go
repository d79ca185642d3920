package issuance

import (
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// wantsTemporary reports whether to issue a temporary certificate: if the
// Certificate requests one, its request has been approved and the issuer has
// begun to work on it, and its Secret has nothing that can be served.
func (s Situation) wantsTemporary(cr *cmv1.CertificateRequest, now time.Time) bool {
	if s.Certificate.Annotations[cmv1.IssueTemporaryCertificateAnnotation] != "true" ||
		certmanager.RequestCondition(cr, cmv1.CertificateRequestConditionReady) == nil {
		return false
	}
	pair := inspect(s, now).find((*inspection).checkExists, (*inspection).checkData, (*inspection).checkPair)
	return !pair.None()
}
