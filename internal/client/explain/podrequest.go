package explain

import (
	"context"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certificates"
)

// PodCertificateRequest explains one request of a pod.
func PodCertificateRequest(ctx context.Context, api Reader, q Query) (PodExplanation, error) {
	req, err := getPodRequest(ctx, api, podRequests.key(q))
	if err != nil {
		return PodExplanation{}, podRequests.explainError(ctx, api, q, err)
	}
	g := &podGatherer{Query: q, api: api, req: req}
	if err := g.gather(ctx); err != nil {
		return PodExplanation{}, readError("finding out about the request", err)
	}
	events, err := EventsOf(ctx, api, req)
	if err != nil {
		return PodExplanation{}, readError("finding out about the request", err)
	}
	e := explainRequest[PodRequest](q, g, events)
	if at := req.Status.BeginRefreshAt; at != nil && e.State == certificates.Issued {
		e.RefreshAt = &at.Time
	}
	return e, nil
}

func (g *podGatherer) object() client.Object { return g.req }

func (g *podGatherer) progress() progress { return podProgress(g.req) }

func podProgress(req *podRequest) progress {
	p := progress{state: certificates.Pending, since: req.CreationTimestamp.Time, chain: []byte(req.Status.CertificateChain)}
	outcome := certificates.PodRequestOutcome(req.Status.Conditions)
	if c := meta.FindStatusCondition(req.Status.Conditions, outcome); c != nil {
		p.reason = conditionText(c.Reason, c.Message)
	}
	switch outcome {
	case certificatesv1beta1.PodCertificateRequestConditionTypeIssued:
		p.state = certificates.Issued
	case certificatesv1beta1.PodCertificateRequestConditionTypeDenied:
		p.state = certificates.Denied
	case certificatesv1beta1.PodCertificateRequestConditionTypeFailed:
		p.state = certificates.Failed
	}
	return p
}

func (g *podGatherer) words() words {
	return words{state: "is pending", signer: "signer", silent: "its signer"}
}

func (g *podGatherer) describe() PodRequest {
	spec := &g.req.Spec
	return PodRequest{
		SignerName: spec.SignerName, Created: g.req.CreationTimestamp.Time,
		Pod: spec.PodName, ServiceAccount: spec.ServiceAccountName, Node: string(spec.NodeName),
		Key: g.key, ExpirationSeconds: spec.MaxExpirationSeconds, Annotations: spec.UnverifiedUserAnnotations,
	}
}

func (g *podGatherer) checks(progress) []Check { return g.found }

func (g *podGatherer) steps(p progress) []Step {
	switch {
	case p.state == certificates.Denied || p.state == certificates.Failed:
		return []Step{{Text: "This is final: the kubelet requests again only for a new pod, 'certplane agent' after some time."}}
	case p.state == certificates.Issued:
		return nil
	case g.signer == nil:
		return []Step{step("Check the signer's name, and that the program that signs for it runs. To list the declared signers:", g.kubectl("get", "signers"))}
	default:
		return []Step{step("To see what its signer does:", g.kubectl("get", "signers", g.signer.Name, "-o", "wide"))}
	}
}
