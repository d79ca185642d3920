package issuer

import (
	"context"
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/answer"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/request"
)

// certificateRequests is the CertificateRequest API of cert-manager.io.
var certificateRequests = requestAPI{
	GroupVersionKind: cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateRequestKind),
	plural:           "certificaterequests",
	namespaced:       true,
	new:              func() client.Object { return &cmv1.CertificateRequest{} },
	list:             func() client.ObjectList { return &cmv1.CertificateRequestList{} },
	as: func(o client.Object) (asked, bool) {
		cr, ok := o.(*cmv1.CertificateRequest)
		return certificateRequest{cr}, ok
	},
}

type certificateRequest struct{ *cmv1.CertificateRequest }

func (cr certificateRequest) object() client.Object { return cr.CertificateRequest }

func (cr certificateRequest) is(kind cmv1.CertificateRequestConditionType) bool {
	return certmanager.RequestIs(cr.CertificateRequest, kind)
}

func (cr certificateRequest) issuer(ks kinds) (who, bool) {
	return ks.referred(cr.Spec.IssuerRef, cr.Namespace)
}

func (cr certificateRequest) step() step {
	switch {
	case cr.is(cmv1.CertificateRequestConditionDenied):
		if answer.ShownOn(cr.CertificateRequest, denied) {
			return stepNone
		}
		return stepDeny
	case cr.is(cmv1.CertificateRequestConditionInvalidRequest), cr.answered():
		return stepNone
	case !cr.is(cmv1.CertificateRequestConditionApproved):
		return stepAwait
	default:
		return stepSign
	}
}

// answered reports whether a request has its answer, from any controller.
func (cr certificateRequest) answered() bool {
	if cr.is(cmv1.CertificateRequestConditionReady) || len(cr.Status.Certificate) > 0 {
		return true
	}
	switch certmanager.ReadyReason(cr.CertificateRequest) {
	case cmv1.CertificateRequestReasonFailed, cmv1.CertificateRequestReasonDenied, cmv1.CertificateRequestReasonIssued:
		return true
	default:
		return false
	}
}

// mayRefer returns true: a request can name issuers of its own namespace only.
func (cr certificateRequest) mayRefer(context.Context, *controller, who) (bool, error) {
	return true, nil
}

func (cr certificateRequest) awaits(w who) (reason, note string) {
	return reasonAwaits, fmt.Sprintf(
		"Not signing CertificateRequest until it is Approved: an approver needs the verb approve on signers.%s named %s/*",
		certmanager.Group, w.kind.domain())
}

func (cr certificateRequest) view() request.Request {
	return request.FromCertificateRequest(cr.CertificateRequest)
}

func refuse(reason, format string, args ...any) (*Request, *answer.Outcome) {
	o := answer.Fail(reason, format, args...)
	return nil, &o
}

func (cr certificateRequest) put(ctx context.Context, c *controller, o answer.Outcome, report answer.Report) (reconcile.Result, error) {
	return cr.answers(c).Put(ctx, cr.CertificateRequest, o, report)
}

func (cr certificateRequest) latest(ctx context.Context, c *controller) (asked, error) {
	latest, err := cr.answers(c).Latest(ctx, cr.CertificateRequest)
	return certificateRequest{latest}, err
}

func (cr certificateRequest) answers(c *controller) answer.Kind[*cmv1.CertificateRequest] {
	due := cr.step()
	return answer.CertificateRequests(c.client, answer.ApplyRequest(c.client, c.Name), c.clock, func(latest *cmv1.CertificateRequest) bool {
		return certificateRequest{latest}.step() == due
	})
}
