package requestsign

import (
	"errors"
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/answer"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/requests"
	"github.com/certplane/certplane/internal/signer"
	"github.com/certplane/certplane/internal/signer/issuer"
)

// refersTo tells whether ref is to this issuer, given that the request is in a
// namespace from which an Issuer can be meant.
func refersTo(ref cmmeta.IssuerReference, to client.Object) bool {
	kind := cmv1.IssuerKind
	if _, ok := to.(*cmv1.ClusterIssuer); ok {
		kind = cmv1.ClusterIssuerKind
	}
	return ref.Name == to.GetName() && certmanager.IssuerKind(ref) == kind && certmanager.IsBuiltIn(ref)
}

// The reasons of Events. Those of verdicts are in internal/signer/issuer, those
// of issuers that cannot sign in internal/policy/requests.
const (
	EventIssued    = "CertificateIssued"
	EventAwaits    = "WaitingForApproval"
	EventAwaitsCSR = "WaitingApproval" // of CertificateSigningRequests
	EventElsewhere = "WaitingForIssuer"
)

// denied is the outcome of whatever an approver does not want. That there is no
// Event about it leaves it to the approver to make one.
var denied = answer.Outcome{State: answer.Denied, Message: requests.MessageDenied}

// decide makes an outcome of what a signer says.
func decide(issued *signer.Issued, err error) answer.Outcome {
	o := answer.Decide(issued, err, EventIssued)
	switch o.Note = ""; {
	case o.Issued != nil:
		o.Message = answer.MessageIssued
	case o.State == answer.Waiting:
		o.Routine, o.After = true, 0
		if !errors.As(err, new(*signer.PendingError)) {
			o.Message = "The issuer cannot sign at present; it keeps trying"
		}
		if slices.Contains(watched, o.Reason) {
			o.Retry = nil
		}
	}
	return o
}

// watched are the reasons to wait for something whose change a watch reports.
var watched = []string{
	issuer.ReasonSecretMissing, issuer.ReasonSecretInvalidData, issuer.ReasonMissingSecret, issuer.ReasonErrorParsingKey,
}
