package explain

import (
	"context"
	"fmt"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requests"
)

// CertificateRequest explains one CertificateRequest of cert-manager.io.
func CertificateRequest(ctx context.Context, api Reader, q Query) (RequestExplanation, error) {
	cr := &cmv1.CertificateRequest{}
	if err := certificateRequests.get(ctx, api, q, cr); err != nil {
		return RequestExplanation{}, err
	}
	f, err := gatherRequest(ctx, api, cr, q)
	if err != nil {
		return RequestExplanation{}, readError("finding out about the request", err)
	}
	return f.explain(), nil
}

// RequestFacts are the API's data about a CertificateRequest.
type RequestFacts struct {
	Query
	Request *cmv1.CertificateRequest
	Events  Events

	issuer *IssuerFacts
	// policies is the result of the certificate policies.
	policies []Check
	// mayApprove reports whether the caller may approve the request.
	mayApprove Result
	// approvers are the accounts in approverAccounts that may approve the
	// request. approver is one that may approve, but not for this issuer. Both
	// are unknown if the caller may not ask.
	approvers        []string
	approver         string
	approversUnknown bool
	// mayGrant reports whether the caller may permit that approver to approve.
	mayGrant Result
	// key is the Secret with the key for a SelfSigned issuer; nil if none is needed or
	// named.
	key *secretKey
	// ordered is the Order of the request; nil if its issuer is not of ACME.
	ordered *ordered
	// otherwise is the next step if the issuer is the wrong one.
	otherwise string
}

func gatherRequest(ctx context.Context, api Reader, cr *cmv1.CertificateRequest, q Query) (*RequestFacts, error) {
	f := &RequestFacts{Query: q, Request: cr, otherwise: anotherRequest}
	var err error
	if f.issuer, err = findIssuer(ctx, api, cr.Spec.IssuerRef, cr.Namespace); err != nil {
		return nil, err
	}
	if f.policies, err = policyChecks(ctx, api, request.FromCertificateRequest(cr), policies.ConditionsOf(cr), q); err != nil {
		return nil, err
	}
	if requests.Undecided(cr) {
		if f.mayApprove, err = ofCaller(ctx, api).mayApprove(f.update(), f.approvals()); err != nil {
			return nil, err
		}
		if err := f.askApprovers(ctx, api); err != nil {
			return nil, err
		}
	}
	if name := cr.Annotations[cmv1.CertificateRequestPrivateKeyAnnotationKey]; f.issuer.selfSigned() && name != "" {
		f.key = &secretKey{namespace: cr.Namespace, secret: name, key: corev1.TLSPrivateKeyKey, what: "the request's private key"}
		if err := f.key.find(ctx, api); err != nil {
			return nil, err
		}
	}
	if f.ordered, err = findOrdered(ctx, api, f.issuer, cr.Namespace, string(cr.UID), q); err != nil {
		return nil, err
	}
	f.Events, err = eventsOfRequest(ctx, api, cr, f.progress())
	return f, err
}

// update returns the attributes of the update that approves a request.
func (f *RequestFacts) update() authorizationv1.ResourceAttributes {
	return updateOfStatus(f.Request)
}

// approvals returns alternative accesses that permit approval, together with the update.
func (f *RequestFacts) approvals() []authorizationv1.ResourceAttributes {
	return signersAccess("approve", certmanager.Group, f.names()...)
}

// names returns the names under which the permission to approve is granted;
// none while no API has the issuer's kind.
func (f *RequestFacts) names() []string {
	if f.issuer.resource.Name == "" {
		return nil
	}
	return certmanager.ApprovalNames(f.Request.Spec.IssuerRef, f.issuer.resource, f.Request.Namespace)
}

// approveSigners returns the permission to approve, as text.
func (f *RequestFacts) approveSigners() string {
	return fmt.Sprintf("approve on signers.%s named %s", certmanager.Group, strings.Join(f.names(), " or "))
}

// askApprovers checks which approvers may act without a person.
func (f *RequestFacts) askApprovers(ctx context.Context, api Reader) error {
	if len(f.names()) == 0 {
		return nil
	}
	for _, account := range approverAccounts {
		check := ofAccount(ctx, api, account)
		writes, err := check(f.update())
		if err != nil {
			return err
		}
		if writes == No {
			continue // this approver does not exist here
		}
		switch allowed, err := check.any(f.approvals()); {
		case err != nil:
			return err
		case writes == Unknown, allowed == Unknown:
			f.approversUnknown = true
			return nil
		case allowed == Yes:
			f.approvers = append(f.approvers, account)
		default:
			f.approver = account
		}
	}
	if f.approver == "" || len(f.approvers) > 0 {
		return nil
	}
	var err error
	f.mayGrant, err = ofCaller(ctx, api).mayGrant("")
	return err
}

func (f *RequestFacts) explain() RequestExplanation {
	return explainRequest[IssuerRequest](f.Query, f, f.Events)
}

func (f *RequestFacts) object() client.Object { return f.Request }

// progress reads the conditions in the same order as the signers.
func (f *RequestFacts) progress() progress {
	cr := f.Request
	p := progress{state: certificates.Pending, since: cr.CreationTimestamp.Time, chain: cr.Status.Certificate}
	reason := certmanager.ReadyReason(cr)
	if reason != "" {
		if p.delay = certmanager.RequestCondition(cr, cmv1.CertificateRequestConditionReady).Message; p.delay == "" {
			p.delay = noReason
		}
	}
	is := func(kind cmv1.CertificateRequestConditionType) bool { return certmanager.RequestIs(cr, kind) }
	switch {
	case is(cmv1.CertificateRequestConditionDenied):
		p.state, p.reason = certificates.Denied, f.conditionTextOf(cmv1.CertificateRequestConditionDenied)
	case is(cmv1.CertificateRequestConditionInvalidRequest):
		p.state, p.reason = invalid, f.conditionTextOf(cmv1.CertificateRequestConditionInvalidRequest)
	case reason == cmv1.CertificateRequestReasonFailed:
		p.state, p.reason = certificates.Failed, p.delay
	case reason == cmv1.CertificateRequestReasonIssued, len(cr.Status.Certificate) > 0:
		p.state = certificates.Issued
	case is(cmv1.CertificateRequestConditionApproved):
		p.state = certificates.Approved
		if at := certmanager.RequestCondition(cr, cmv1.CertificateRequestConditionApproved).LastTransitionTime; at != nil {
			p.since = at.Time
		}
	}
	return p
}

// conditionTextOf returns the text of a condition of the request; empty if it is not
// true.
func (f *RequestFacts) conditionTextOf(kind cmv1.CertificateRequestConditionType) string {
	if !certmanager.RequestIs(f.Request, kind) {
		return ""
	}
	c := certmanager.RequestCondition(f.Request, kind)
	return conditionText(c.Reason, c.Message)
}

func (f *RequestFacts) words() words {
	w := words{approval: true, state: "is approved", signer: "issuer", waits: " and waits: ", lacking: "the approver", silent: "its controller"}
	if group := f.issuer.Ref.Group; group != certmanager.Group {
		w.silent = "the program that signs for issuers of the group " + group
	}
	return w
}

func (f *RequestFacts) describe() IssuerRequest {
	cr, spec := f.Request, &f.Request.Spec
	parsed, _ := certmanager.ParseRequest(spec.Request)
	return IssuerRequest{
		Content: describeContent(cr.CreationTimestamp, spec.Username, spec.Groups, spec.Usages, parsed),
		Issuer:  f.issuer.String(), Owner: ownerOf(cr), IsCA: spec.IsCA, Duration: spec.Duration,
	}
}

// ownerOf returns the name of the Certificate that a request is for.
func ownerOf(cr *cmv1.CertificateRequest) string {
	if owner := metav1.GetControllerOf(cr); owner != nil && owner.Kind == cmv1.CertificateKind {
		return owner.Name
	}
	return ""
}
