package explain

import (
	"context"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
)

// IssuerRequest is what was requested, with the issuer and the requester.
type IssuerRequest struct {
	Issuer   string    `json:"issuer"`
	Created  time.Time `json:"created"`
	Username string    `json:"username"`
	Groups   []string  `json:"groups,omitempty"`
	// Owner is the Certificate that the request is for, if there is one.
	Owner   string `json:"certificate,omitempty"`
	Subject string `json:"subject,omitempty"`
	// Names are the subject alternative names, each with its kind in front.
	Names    []string         `json:"names,omitempty"`
	Usages   []string         `json:"usages"`
	IsCA     bool             `json:"isCA"`
	Key      string           `json:"key,omitempty"`
	Duration *metav1.Duration `json:"duration,omitempty"`
}

// invalid is the state of requests with the condition InvalidRequest. It is
// final.
const invalid certificates.State = "Invalid"

// CertificateRequest explains one CertificateRequest of cert-manager.io.
func CertificateRequest(ctx context.Context, api Reader, q Query) (RequestExplanation, error) {
	cr := &cmv1.CertificateRequest{}
	if err := get(ctx, api, q, "CertificateRequest", cr); err != nil {
		return RequestExplanation{}, err
	}
	f, err := gatherRequest(ctx, api, cr, q)
	if err != nil {
		return RequestExplanation{}, reading("finding out about the request", err)
	}
	return f.explain(), nil
}

// explain returns the explanation that follows from the facts.
func (f *RequestFacts) explain() RequestExplanation {
	state := stateOf(f.Request)
	e := RequestExplanation{
		Namespace: f.Request.Namespace, Name: f.Request.Name, UID: string(f.Request.UID), State: state,
		Request: describeIssuerRequest(f.Request, f.issuer),
		Checks:  append(f.checks(state), f.further()...), Events: f.Events.List, Next: f.next(state),
	}
	if state == certificates.Issued {
		e.Certificate = describeCertificate(f.Request.Status.Certificate)
	}
	e.Verdict = f.Request.Name + " " + f.verdict(state, e.Certificate)
	return e
}

// stateOf returns the state of a request. It reads the conditions in the same
// order as the signers.
func stateOf(cr *cmv1.CertificateRequest) certificates.State {
	reason := certmanager.ReadyReason(cr)
	switch {
	case certmanager.RequestIs(cr, cmv1.CertificateRequestConditionDenied):
		return certificates.Denied
	case certmanager.RequestIs(cr, cmv1.CertificateRequestConditionInvalidRequest):
		return invalid
	case reason == cmv1.CertificateRequestReasonFailed:
		return certificates.Failed
	case reason == cmv1.CertificateRequestReasonIssued, len(cr.Status.Certificate) > 0:
		return certificates.Issued
	case certmanager.RequestIs(cr, cmv1.CertificateRequestConditionApproved):
		return certificates.Approved
	default:
		return certificates.Pending
	}
}

func describeIssuerRequest(cr *cmv1.CertificateRequest, issuer *IssuerFacts) IssuerRequest {
	spec := &cr.Spec
	r := IssuerRequest{
		Issuer: issuer.String(), Created: cr.CreationTimestamp.Time, Username: spec.Username, Groups: spec.Groups,
		Owner: ownerOf(cr), IsCA: spec.IsCA, Duration: spec.Duration, Usages: []string{},
	}
	for _, usage := range spec.Usages {
		r.Usages = append(r.Usages, string(usage))
	}
	if parsed, err := certmanager.ParseRequest(spec.Request); err == nil {
		r.Subject, r.Names, r.Key = parsed.Subject.String(), pki.RequestNames(parsed), pki.KeyName(parsed.PublicKey)
	}
	return r
}

// ownerOf returns the name of the Certificate that a request is for.
func ownerOf(cr *cmv1.CertificateRequest) string {
	if owner := metav1.GetControllerOf(cr); owner != nil && owner.Kind == cmv1.CertificateKind {
		return owner.Name
	}
	return ""
}
