package explain

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/policy/retention"
)

// PodRequest is what was requested, and for which pod.
type PodRequest struct {
	SignerName        string            `json:"signerName"`
	Created           time.Time         `json:"created"`
	Pod               string            `json:"pod"`
	ServiceAccount    string            `json:"serviceAccount"`
	Node              string            `json:"node"`
	Key               string            `json:"key,omitempty"`
	ExpirationSeconds *int32            `json:"expirationSeconds,omitempty"`
	Annotations       map[string]string `json:"annotations,omitempty"`
}

// podVerdict is the state of a pod's request and the condition that gives the
// reason, if there is one.
type podVerdict struct {
	State     certificates.State
	Condition metav1.Condition
}

func judgePod(req *podRequest) podVerdict {
	states := map[string]certificates.State{
		certificatesv1beta1.PodCertificateRequestConditionTypeIssued: certificates.Issued,
		certificatesv1beta1.PodCertificateRequestConditionTypeDenied: certificates.Denied,
		certificatesv1beta1.PodCertificateRequestConditionTypeFailed: certificates.Failed,
	}
	for _, c := range req.Status.Conditions {
		if state, ok := states[c.Type]; ok && c.Status == metav1.ConditionTrue {
			return podVerdict{state, c}
		}
	}
	return podVerdict{State: certificates.Pending}
}

// PodCertificateRequest explains one request of a pod.
func PodCertificateRequest(ctx context.Context, api Reader, q Query) (PodExplanation, error) {
	req, err := getPodRequest(ctx, api, client.ObjectKey{Namespace: q.Namespace, Name: q.Name})
	if apierrors.IsNotFound(err) {
		return PodExplanation{}, &NotFoundError{
			Message: fmt.Sprintf("there is no pod certificate request named %s in the namespace %s", q.Name, q.Namespace),
			Next: []Step{step("A request is deleted "+length(retention.DefaultPodAge)+" after its creation, unless the server is configured otherwise. To see which there are:",
				q.kubectl("get", "podcertificaterequests", "--all-namespaces"))},
		}
	}
	if err != nil {
		return PodExplanation{}, reading("reading the request", err)
	}
	g := &podGatherer{Query: q, api: api, req: req}
	if err := g.gather(ctx); err != nil {
		return PodExplanation{}, reading("finding out about the request", err)
	}
	events, err := eventsOf(ctx, api, req)
	if err != nil {
		return PodExplanation{}, reading("finding out about the request", err)
	}
	e := g.explain()
	e.Events = events.List
	return e, nil
}

// explain returns the explanation that follows from the gathered facts.
func (g *podGatherer) explain() PodExplanation {
	req, v := g.req, judgePod(g.req)
	e := PodExplanation{
		Namespace: req.Namespace, Name: req.Name, UID: string(req.UID), State: v.State, Checks: g.checks,
		Request: PodRequest{
			SignerName: req.Spec.SignerName, Created: req.CreationTimestamp.Time,
			Pod: req.Spec.PodName, ServiceAccount: req.Spec.ServiceAccountName, Node: string(req.Spec.NodeName),
			Key: g.key, ExpirationSeconds: req.Spec.MaxExpirationSeconds, Annotations: req.Spec.UnverifiedUserAnnotations,
		},
	}
	if v.State == certificates.Issued {
		e.Certificate = leafOf(req.Status.CertificateChain)
		if at := req.Status.BeginRefreshAt; at != nil {
			e.RefreshAt = &at.Time
		}
	}
	e.Verdict = req.Name + " " + g.verdict(v, e.Certificate)
	e.Next = g.next(v)
	return e
}

func (g *podGatherer) verdict(v podVerdict, cert *Certificate) string {
	said := fmt.Sprintf("%s (%s)", v.Condition.Message, v.Condition.Reason)
	switch {
	case v.State == certificates.Denied:
		return "was denied: " + said
	case v.State == certificates.Failed:
		return "failed at its signer: " + said
	case v.State == certificates.Issued:
		return g.issued(cert)
	}
	o := outlook{checks: g.checks, waited: g.Now.Sub(g.req.CreationTimestamp.Time), words: words{
		state: "is pending", signer: "signer", silent: "its signer",
	}}
	return o.unsigned()
}

func (g *podGatherer) next(v podVerdict) []Step {
	switch {
	case v.State == certificates.Denied || v.State == certificates.Failed:
		return []Step{{Text: "This is final: the kubelet asks again only for a new pod, 'certplane agent' after some time."}}
	case v.State == certificates.Issued:
		return nil
	case g.signer == nil:
		return []Step{step("Is the signer's name right, and does the program that signs for it run? To see the declared signers:", g.kubectl("get", "signers"))}
	default:
		return []Step{step("To see what its signer does:", g.kubectl("get", "signers", g.signer.Name, "-o", "wide"))}
	}
}

func leafOf(chain string) *Certificate {
	block, _ := pem.Decode([]byte(chain))
	if block == nil {
		return nil
	}
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		return nil
	}
	return describeCertificate(pem.EncodeToMemory(block))
}
