package explain

import (
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/cli/inspect"
	"github.com/certplane/certplane/internal/policy/approval"
)

// soon is how long controllers may take for what they do at once.
const soon = time.Minute

// delayed is the condition by which certplane's signers say that they cannot
// sign at present.
const delayed certificatesv1.RequestConditionType = "SigningDelayed"

// explain decides what the facts mean.
func (f *facts) explain() Explanation {
	v := inspect.Judge(f.csr)
	e := Explanation{
		Name: f.csr.Name, UID: string(f.csr.UID), State: v.State,
		Request: describeRequest(f.csr),
		Checks:  f.checks(v),
		Events:  describeEvents(f.events),
		Next:    f.next(v),
	}
	if v.State == inspect.Issued {
		e.Certificate = describeCertificate(f.csr.Status.Certificate)
	}
	e.Verdict = f.csr.Name + " " + f.verdict(v, e.Certificate)
	return e
}

// verdict continues a sentence that begins with the request's name.
func (f *facts) verdict(v inspect.Verdict, cert *Certificate) string {
	switch v.State {
	case inspect.Denied:
		return "was denied: " + because(v.Condition)
	case inspect.Failed:
		return "failed at its signer: " + because(v.Condition)
	case inspect.Issued:
		return f.issued(cert)
	case inspect.Approved:
		return f.approved(v.Condition)
	default:
		return f.pending()
	}
}

func (f *facts) issued(cert *Certificate) string {
	switch {
	case cert == nil:
		return "has a certificate that cannot be read"
	case f.now.After(cert.NotAfter):
		return "was issued, and its certificate expired on " + cert.NotAfter.Format(time.RFC3339)
	default:
		return "is issued: its certificate is valid until " + cert.NotAfter.Format(time.RFC3339)
	}
}

func (f *facts) approved(approval condition) string {
	waited := f.now.Sub(approval.LastUpdateTime.Time)
	switch late := certificates.Condition(f.csr, delayed); {
	case late != nil:
		return "is approved, and its signer cannot sign: " + late.Message
	case f.objection != nil:
		return "is approved, and its signer will refuse it: " + f.objection.Error()
	case waited < soon:
		return "is approved and about to be signed"
	default:
		return fmt.Sprintf("is approved, and no signer has answered for %s", duration.HumanDuration(waited))
	}
}

func (f *facts) pending() string {
	age := f.now.Sub(f.csr.CreationTimestamp.Time)
	switch permission := f.permission(); {
	case f.objection != nil:
		return "waits for approval, and its signer would refuse it: " + f.objection.Error()
	case permission == Yes && age < soon:
		return "is about to be approved without a person"
	case permission == Yes:
		return fmt.Sprintf("may be approved without a person, and for %s no approver has done so", duration.HumanDuration(age))
	case permission == No:
		return "waits for a person to approve it, as its requester lacks a permission"
	default:
		return "waits for a person to approve or deny it"
	}
}

func because(c condition) string { return said(c.Reason, c.Message) }

// said is what a condition says.
func said(reason, message string) string {
	switch {
	case message != "" && reason != "":
		return fmt.Sprintf("%s (%s)", message, reason)
	case message+reason != "":
		return message + reason
	}
	return "no reason given"
}

// permission tells whether the approver finds what it asks for. It is Open
// where the approver does not ask.
func (f *facts) permission() Result {
	answer := Open
	for _, permitted := range f.permitted {
		if answer = permitted; answer == Yes {
			break
		}
	}
	return answer
}

// notPermitted says what the requester lacks.
func (f *facts) notPermitted() *approval.NotPermittedError {
	return &approval.NotPermittedError{User: f.csr.Spec.Username, Recognisers: f.known}
}
