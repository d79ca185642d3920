package issuer

import (
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing/engine"
	"github.com/certplane/certplane/internal/issuing/outcome"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requests"
)

// certificateRequests is the CertificateRequest API of cert-manager.io.
var certificateRequests = requestAPI[*cmv1.CertificateRequest]{
	GroupVersionKind: cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateRequestKind),
	plural:           "certificaterequests",
	namespaced:       true,
	new:              func() *cmv1.CertificateRequest { return &cmv1.CertificateRequest{} },
	list:             func() client.ObjectList { return &cmv1.CertificateRequestList{} },
	issuer: func(ks kinds, cr *cmv1.CertificateRequest) (who, bool) {
		return ks.referred(cr.Spec.IssuerRef, cr.Namespace)
	},
	due:  dueOf,
	view: request.FromCertificateRequest,
	awaits: func(w who) (reason, text string) {
		return reasonAwaits, fmt.Sprintf(
			"Not signing CertificateRequest until it is Approved: an approver needs the verb approve on signers.%s named %s/*",
			certmanager.Group, w.kind.domain())
	},
	answers: func(c *controller, waits func(*cmv1.CertificateRequest) bool) outcome.Kind[*cmv1.CertificateRequest] {
		return outcome.CertificateRequests(c.client, outcome.ApplyRequest(c.client, c.Name), c.clock, waits)
	},
}

// dueOf returns the next step for a CertificateRequest.
func dueOf(cr *cmv1.CertificateRequest) requests.Step {
	switch {
	case certmanager.RequestIs(cr, cmv1.CertificateRequestConditionDenied):
		if outcome.ShownOn(cr, engine.Denied) {
			return requests.None
		}
		return requests.Deny
	case certmanager.RequestIs(cr, cmv1.CertificateRequestConditionInvalidRequest), answered(cr):
		return requests.None
	case !certmanager.RequestIs(cr, cmv1.CertificateRequestConditionApproved):
		return requests.Await
	default:
		return requests.Sign
	}
}

// answered reports whether a CertificateRequest has its answer, from any
// controller.
func answered(cr *cmv1.CertificateRequest) bool {
	if certmanager.RequestIs(cr, cmv1.CertificateRequestConditionReady) || len(cr.Status.Certificate) > 0 {
		return true
	}
	switch certmanager.ReadyReason(cr) {
	case cmv1.CertificateRequestReasonFailed, cmv1.CertificateRequestReasonDenied, cmv1.CertificateRequestReasonIssued:
		return true
	default:
		return false
	}
}
