package issuer

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/answer"
	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/policy/request"
)

// signingRequests is the CertificateSigningRequest API of certificates.k8s.io.
var signingRequests = requestAPI{
	GroupVersionKind: certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"),
	plural:           "certificatesigningrequests",
	new:              func() client.Object { return &certificatesv1.CertificateSigningRequest{} },
	list:             func() client.ObjectList { return &certificatesv1.CertificateSigningRequestList{} },
	as: func(o client.Object) (asked, bool) {
		csr, ok := o.(*certificatesv1.CertificateSigningRequest)
		return signingRequest{csr}, ok
	},
}

type signingRequest struct {
	*certificatesv1.CertificateSigningRequest
}

func (csr signingRequest) object() client.Object { return csr.CertificateSigningRequest }

func (csr signingRequest) condition(kind certificatesv1.RequestConditionType) *certificatesv1.CertificateSigningRequestCondition {
	return certificates.Condition(csr.CertificateSigningRequest, kind)
}

func (csr signingRequest) issuer(ks kinds) (who, bool) { return ks.named(csr.Spec.SignerName) }

// step looks only at the presence of Approved and Denied; their status can only
// be True.
func (csr signingRequest) step() step {
	switch {
	case csr.condition(certificatesv1.CertificateDenied) != nil, certificates.HasFailed(csr.CertificateSigningRequest), len(csr.Status.Certificate) > 0:
		return stepNone
	case csr.condition(certificatesv1.CertificateApproved) == nil:
		return stepAwait
	default:
		return stepSign
	}
}

func (csr signingRequest) awaits(w who) (reason, note string) {
	return reasonCSRAwaits, fmt.Sprintf(
		"Not signing CertificateSigningRequest until it is Approved: whoever approves it needs the verb approve on signers.%s named %s/*",
		certificatesv1.GroupName, w.kind.domain())
}

// mayRefer asks the API server: CertificateSigningRequests have no namespace,
// and without this permission every requester could use the issuers of every
// namespace.
func (csr signingRequest) mayRefer(ctx context.Context, c *controller, w who) (bool, error) {
	if !w.kind.namespaced || c.AnybodyMayRefer {
		return true, nil
	}
	review := &authorizationv1.SubjectAccessReview{Spec: certificates.AccessOfRequester(csr.CertificateSigningRequest, &authorizationv1.ResourceAttributes{
		Group: w.kind.Group, Version: w.kind.Version, Resource: w.kind.plural, Verb: "reference", Namespace: w.Namespace, Name: w.Name,
	})}
	if err := c.client.Create(ctx, review); err != nil {
		return false, fmt.Errorf("asking whether %s may refer to %s: %w", csr.Spec.Username, w, err)
	}
	return review.Status.Allowed, nil
}

func (csr signingRequest) view() request.Request {
	return request.FromCSR(csr.CertificateSigningRequest)
}

func (csr signingRequest) put(ctx context.Context, c *controller, o answer.Outcome, report answer.Report) (reconcile.Result, error) {
	return csr.answers(c).Put(ctx, csr.CertificateSigningRequest, o, report)
}

func (csr signingRequest) latest(ctx context.Context, c *controller) (asked, error) {
	latest, err := csr.answers(c).Latest(ctx, csr.CertificateSigningRequest)
	return signingRequest{latest}, err
}

func (csr signingRequest) answers(c *controller) answer.Kind[*certificatesv1.CertificateSigningRequest] {
	due := csr.step()
	return answer.SigningRequests(c.client, c.Name, c.clock, func(latest *certificatesv1.CertificateSigningRequest) bool {
		return signingRequest{latest}.step() == due
	})
}
