package explain

import (
	"context"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/approval"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

type (
	csr       = certificatesv1.CertificateSigningRequest
	condition = certificatesv1.CertificateSigningRequestCondition
)

// CertificateSigningRequest explains a request.
func CertificateSigningRequest(ctx context.Context, api Reader, q Query) (Explanation, error) {
	c := &csr{}
	if err := signingRequests.get(ctx, api, q, c); err != nil {
		return Explanation{}, err
	}
	f := &facts{Query: q, csr: c, objection: objection(c, q.Now)}
	if err := f.gather(ctx, api); err != nil {
		return Explanation{}, readError("finding out about the request", err)
	}
	return f.explain(), nil
}

// facts are the API's data about a CertificateSigningRequest.
type facts struct {
	Query
	csr *csr
	// known are the recognisers that match the request; permitted reports for each
	// whether the requester has the required permission.
	known     []approval.Recogniser
	permitted []Result
	// mayGrant reports whether the caller may grant a missing permission.
	mayGrant Result
	// declared is the Signer that declares the request's signer; nil if none does. It is
	// unknown if the caller may not list Signers.
	declared         *v1alpha1.Signer
	declarersUnknown bool
	// referral describes the issuer that the request names as its signer; nil if it names
	// none.
	referral *referral
	// policies is the result of the certificate policies.
	policies []Check
	// objection is the signer's objection to the request, or nil.
	objection error
	// mayApprove reports whether the caller may approve the request.
	mayApprove Result
	// signers are the accounts in signerAccounts that may sign the request. They are
	// unknown if the caller may not check.
	signers        []string
	signersUnknown bool
	events         Events
}

func (f *facts) gather(ctx context.Context, api Reader) (err error) {
	for _, part := range []func(context.Context, Reader) error{
		f.findDeclared, f.findReferral, f.askPolicies, f.askPermission, f.askApproval, f.askSigners,
	} {
		if err := part(ctx, api); err != nil {
			return err
		}
	}
	f.events, err = eventsOfRequest(ctx, api, f.csr, f.progress())
	return err
}

// askPermission asks for the permission that the approver checks.
func (f *facts) askPermission(ctx context.Context, api Reader) error {
	if f.progress().state != certificates.Pending {
		return nil
	}
	known, err := approval.Policy{}.Recognise(f.csr)
	if err != nil {
		return nil // the check "kubelet" explains it
	}
	f.known = known
	for _, recogniser := range known {
		allowed, err := result(api.May(ctx, recogniser.Permission(f.csr)))
		if err != nil {
			return err
		}
		f.permitted = append(f.permitted, allowed)
	}
	if f.permission() == No {
		f.mayGrant, err = ofCaller(ctx, api).mayGrant("")
	}
	return err
}

func (f *facts) askPolicies(ctx context.Context, api Reader) (err error) {
	f.policies, err = policyChecks(ctx, api, request.FromCSR(f.csr), policies.ConditionsOf(f.csr), f.Query)
	return err
}

func (f *facts) askApproval(ctx context.Context, api Reader) (err error) {
	if f.progress().state == certificates.Pending {
		f.mayApprove, err = ofCaller(ctx, api).mayApprove(updateOfApproval(f.csr), signerAccess("approve", f.csr.Spec.SignerName))
	}
	return err
}

func (f *facts) askSigners(ctx context.Context, api Reader) error {
	if !f.progress().open() {
		return nil
	}
	accounts := signerAccounts
	switch {
	case f.referral != nil:
		accounts = issuerAccounts
	case f.declared != nil: // these accounts may sign for any signer, and do so for declared ones
		accounts = declaredAccounts
	case f.declarersUnknown:
		accounts = slices.Concat(signerAccounts, declaredAccounts)
	}
	signers, known, err := permittedSigners(ctx, api, accounts, f.csr.Spec.SignerName)
	f.signers, f.signersUnknown = signers, !known
	return err
}

// explain returns the explanation that follows from the facts.
func (f *facts) explain() Explanation {
	e := explainRequest[Request](f.Query, f, f.events)
	for _, c := range policies.ConditionsOf(f.csr) {
		switch certificatesv1.RequestConditionType(c.Type) {
		case certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
		default: // decides nothing
			e.Checks = append(e.Checks, Check{c.Type, f.resultOfCondition(c), conditionText(c.Reason, quorum.Unsealed(c))})
		}
	}
	return e
}

// resultOfCondition returns the result in a condition. A waiting request is Open.
func (f *facts) resultOfCondition(c quorum.Condition) Result {
	waits := c.Type == string(certificates.ConditionDelayed) || c.Type == quorum.AwaitingApproval
	if waits && f.progress().open() {
		return Open
	}
	return resultOf(c.Status)
}

// resultOf returns the result for the status of a condition.
func resultOf[S ~string](status S) Result {
	switch corev1.ConditionStatus(status) {
	case corev1.ConditionTrue:
		return Yes
	case corev1.ConditionFalse:
		return No
	}
	return Unknown
}

func (f *facts) object() client.Object { return f.csr }

func (f *facts) progress() progress {
	v := certificates.Judge(f.csr)
	p := progress{
		state: v.State, reason: conditionText(v.Condition.Reason, v.Condition.Message),
		since: f.csr.CreationTimestamp.Time, chain: f.csr.Status.Certificate,
	}
	if at := v.Condition.LastUpdateTime; v.State == certificates.Approved && !at.IsZero() {
		p.since = at.Time
	}
	if late := certificates.Condition(f.csr, certificates.ConditionDelayed); late != nil {
		p.delay = late.Message
		if f.declared != nil { // the cause is in the Signer's status; the condition only reports a failure
			if ready, message := signerReadiness(f.declared); ready == No {
				p.delay = message
			}
		}
	}
	return p
}

func (f *facts) words() words {
	return words{
		approval: true, state: "is approved", signer: "signer", waits: ", and its signer cannot sign: ", lacking: "its requester", silent: "its signer",
	}
}

func (f *facts) describe() Request {
	spec := &f.csr.Spec
	parsed, _ := pki.ParseRequest(spec.Request)
	return Request{
		Content:    describeContent(f.csr.CreationTimestamp, spec.Username, spec.Groups, spec.Usages, parsed),
		SignerName: spec.SignerName, ExpirationSeconds: spec.ExpirationSeconds,
	}
}

// permission returns whether the requester has the permission that the approver
// requires. It is Open if the approver does not check.
func (f *facts) permission() Result {
	answer := Open
	for _, permitted := range f.permitted {
		if answer = permitted; answer == Yes {
			break
		}
	}
	return answer
}
