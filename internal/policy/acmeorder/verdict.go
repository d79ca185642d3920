package acmeorder

import (
	"cmp"
	"slices"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// Said is the reason and the message of a condition of a request.
type Said struct{ Reason, Message string }

// Standing is how far a request has come, by its conditions. What is nil is not
// said.
type Standing struct {
	Denied, Failed, Approved, Delayed *Said
	// Certificate is the issued chain in PEM.
	Certificate []byte
}

// StandingOf returns the progress of a request; zero for kinds that orders do not use.
func StandingOf(object any) Standing {
	switch object := object.(type) {
	case *certificatesv1.CertificateSigningRequest:
		return StandingOfCSR(object)
	case *cmv1.CertificateRequest:
		return StandingOfCertificateRequest(object)
	}
	return Standing{}
}

// StandingOfCSR returns how far a CertificateSigningRequest has come.
func StandingOfCSR(csr *certificatesv1.CertificateSigningRequest) Standing {
	said := func(t certificatesv1.RequestConditionType) *Said {
		c := certificates.Condition(csr, t)
		if c == nil {
			return nil
		}
		return &Said{c.Reason, c.Message}
	}
	return Standing{
		Denied: said(certificatesv1.CertificateDenied), Failed: said(certificatesv1.CertificateFailed),
		Approved: said(certificatesv1.CertificateApproved), Delayed: said(certificates.ConditionDelayed),
		Certificate: csr.Status.Certificate,
	}
}

// StandingOfCertificateRequest returns how far a CertificateRequest has come.
func StandingOfCertificateRequest(cr *cmv1.CertificateRequest) Standing {
	said := func(t cmv1.CertificateRequestConditionType) *Said {
		if !certmanager.RequestIs(cr, t) {
			return nil
		}
		c := certmanager.RequestCondition(cr, t)
		return &Said{c.Reason, c.Message}
	}
	s := Standing{
		Denied: said(cmv1.CertificateRequestConditionDenied), Approved: said(cmv1.CertificateRequestConditionApproved),
		Certificate: cr.Status.Certificate,
	}
	ready := certmanager.RequestCondition(cr, cmv1.CertificateRequestConditionReady)
	if ready == nil {
		return s
	}
	switch ready.Reason {
	case cmv1.CertificateRequestReasonFailed:
		s.Failed = &Said{ready.Reason, ready.Message}
		if invalid := said(cmv1.CertificateRequestConditionInvalidRequest); invalid != nil {
			s.Failed.Reason = cmp.Or(invalid.Reason, ready.Reason)
		}
	case cmv1.CertificateRequestReasonPending:
		s.Delayed = &Said{ready.Reason, ready.Message}
	}
	return s
}

// What an order that is processing waits for.
const (
	WaitsForApproval = "approval"
	WaitsForSigner   = "signer"
)

// Verdict is the consequence of a request for its order.
type Verdict struct {
	// Problem ends the order.
	Problem *rfc8555.Problem
	// Denied: a person or a policy has denied the request.
	Denied bool
	// Issued is the chain, which CheckLeaf has to check.
	Issued []byte
	// WaitsFor and Message describe what the order waits for.
	WaitsFor, Message string
}

// Judge returns the consequence of a request for its order. With hideReasons, problems do
// not tell clients why a request was refused.
func Judge(s Standing, order string, hideReasons bool) Verdict {
	switch {
	case s.Denied != nil:
		p := rfc8555.NewProblem(403, rfc8555.ProblemUnauthorized, "denied: %s: %s", s.Denied.Reason, s.Denied.Message)
		return Verdict{Problem: hidden(p, order, hideReasons), Denied: true}
	case s.Failed != nil:
		return Verdict{Problem: hidden(RefusedBySigner(*s.Failed), order, hideReasons)}
	case len(s.Certificate) > 0:
		return Verdict{Issued: s.Certificate}
	case s.Approved == nil:
		return Verdict{WaitsFor: WaitsForApproval, Message: "the request waits for its approval"}
	}
	v := Verdict{WaitsFor: WaitsForSigner, Message: "the request is approved and waits for its signer"}
	if s.Delayed != nil && !hideReasons {
		v.Message = bounded(cmp.Or(s.Delayed.Message, v.Message))
	}
	return v
}

func hidden(p *rfc8555.Problem, order string, hide bool) *rfc8555.Problem {
	if hide {
		p.Detail, p.Subproblems = "refused by policy", nil
		if order != "" {
			p.Detail += " (reference " + order + ")"
		}
	}
	return p
}

// refusals map the reasons of failed requests to problems. All other reasons, including
// the rules of a Signer, are problems of the request itself: badCSR.
var refusals = []struct {
	reasons []string
	status  int
	kind    string
}{
	{[]string{"SignerExpired", "SignerUnavailable", "SignerAnswerInvalid", "ExpressionFailed", "CertificateRefused"}, 500, rfc8555.ProblemServerInternal},
	{[]string{"NameNotPermitted"}, 400, rfc8555.ProblemRejectedIdentifier},
}

// RefusedBySigner returns the problem of a request that its signer refuses, by the reason
// and the message of the refusal. RFC 8555 section 7.4 specifies badCSR for requests that
// the CA does not want to sign. rejectedIdentifier would make clients give up a name.
func RefusedBySigner(s Said) *rfc8555.Problem {
	for _, r := range refusals {
		if slices.Contains(r.reasons, s.Reason) {
			return rfc8555.NewProblem(r.status, r.kind, "%s: %s", s.Reason, s.Message)
		}
	}
	return rfc8555.NewProblem(400, rfc8555.ProblemBadCSR, "%s: %s", s.Reason, s.Message)
}

// CreateRefused returns the problem that ends an order whose request the API did
// not take, by the code and the message of its answer; nil if it is to be tried
// again.
func CreateRefused(code int, message string) *rfc8555.Problem {
	switch {
	case code == 403 && strings.Contains(message, "exceeded quota"):
		return rfc8555.NewProblem(429, rfc8555.ProblemRateLimited, "%s", message)
	case code == 422 && strings.Contains(message, "spec.request"):
		return rfc8555.NewProblem(400, rfc8555.ProblemBadCSR, "the API does not take the certificate request")
	case code == 403, code == 400, code == 422, code == 404:
		return rfc8555.NewProblem(403, rfc8555.ProblemUnauthorized, "%s", message)
	}
	return nil
}

// WrongLeafProblem is the problem of an order whose signer has issued a certificate that
// does not match it.
func WrongLeafProblem() *rfc8555.Problem {
	return rfc8555.NewProblem(500, rfc8555.ProblemServerInternal, "the signer has issued a certificate that does not match the order")
}
