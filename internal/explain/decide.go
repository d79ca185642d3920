package explain

import (
	"fmt"
	"time"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/policy/approval"
)

// explain returns the explanation that follows from the facts.
func (f *facts) explain() Explanation {
	v := certificates.Judge(f.csr)
	deciding := f.checks(v)
	e := Explanation{
		Name: f.csr.Name, UID: string(f.csr.UID), State: v.State,
		Request: describeRequest(f.csr),
		Checks:  append(deciding, f.further()...),
		Events:  f.events.List,
		Next:    f.next(v),
	}
	if v.State == certificates.Issued {
		e.Certificate = describeCertificate(f.csr.Status.Certificate)
	}
	e.Verdict = f.csr.Name + " " + f.verdict(v, deciding, e.Certificate)
	return e
}

// verdict returns the rest of a sentence that begins with the request's name.
func (f *facts) verdict(v certificates.Verdict, deciding []Check, cert *Certificate) string {
	switch v.State {
	case certificates.Denied:
		return "was denied: " + because(v.Condition)
	case certificates.Failed:
		return "failed at its signer: " + because(v.Condition)
	case certificates.Issued:
		return f.issued(cert)
	case certificates.Approved:
		return f.outlook(v, deciding).unsigned()
	default:
		return f.outlook(v, deciding).undecided()
	}
}

// issued returns the rest of a sentence about a request that has its
// certificate.
func (q Query) issued(cert *Certificate) string {
	switch {
	case cert == nil:
		return "has a certificate that cannot be read"
	case q.Now.After(cert.NotAfter):
		return "was issued, and its certificate expired on " + cert.NotAfter.Format(time.RFC3339)
	default:
		return "is issued: its certificate is valid until " + cert.NotAfter.Format(time.RFC3339)
	}
}

// outlook returns what the request waits for; deciding are the checks.
func (f *facts) outlook(v certificates.Verdict, deciding []Check) outlook {
	o := outlook{checks: deciding, words: words{
		state: "is approved", signer: "signer", tells: ", and its signer cannot sign: ", lacking: "its requester", silent: "its signer",
	}}
	began := f.csr.CreationTimestamp
	if at := v.Condition.LastUpdateTime; v.State == certificates.Approved && !at.IsZero() {
		began = at
	}
	o.waited = f.Now.Sub(began.Time)
	if late := certificates.Condition(f.csr, certificates.ConditionDelayed); late != nil {
		o.told = late.Message
	}
	return o
}

func because(c condition) string { return said(c.Reason, c.Message) }

// said returns the text of a condition.
func said(reason, message string) string {
	switch {
	case message != "" && reason != "":
		return fmt.Sprintf("%s (%s)", message, reason)
	case message+reason != "":
		return message + reason
	}
	return "no reason given"
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

// notPermitted returns the error that says which permission the requester
// lacks.
func (f *facts) notPermitted() *approval.NotPermittedError {
	return &approval.NotPermittedError{User: f.csr.Spec.Username, Recognisers: f.known}
}
