package explain

import (
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/rights"
)

// invalid is the state of CertificateRequests with the condition
// InvalidRequest. It is final.
const invalid certificates.State = "Invalid"

// progress is the progress of a request of any kind.
type progress struct {
	state certificates.State
	// reason is the text of the condition that set the state.
	reason string
	// since is the time when the request entered the state.
	since time.Time
	// delay is the signer's report of what it waits for; empty without a report.
	delay string
	// chain is the certificate and its CAs in PEM; empty without a certificate.
	chain []byte
}

// open reports whether a signer can still answer.
func (p progress) open() bool {
	return p.state == certificates.Pending || p.state == certificates.Approved
}

// requestFacts are the API's data about a request of one kind, with the content R.
type requestFacts[R any] interface {
	object() client.Object
	progress() progress
	words() words
	describe() R
	// checks returns the deciding checks, in their order.
	checks(progress) []Check
	// steps returns the next steps.
	steps(progress) []Step
}

// explainRequest returns the explanation that follows from the facts.
func explainRequest[R any](q Query, f requestFacts[R], events Events) Explained[R] {
	object, p := f.object(), f.progress()
	if p.state == certificates.Denied && events.deniedBy != "" {
		p.reason += ", by " + events.deniedBy
	}
	e := Explained[R]{
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: string(object.GetUID()), State: p.state,
		Request: f.describe(), Checks: f.checks(p), Events: events.List, Next: f.steps(p),
	}
	if p.state == certificates.Issued {
		if e.Certificate = describeCertificate(p.chain); e.Certificate != nil {
			e.Certificate.Revocation = events.revocation
		}
	}
	e.Verdict = e.Name + " " + outlook{e.Checks, q.Now.Sub(p.since), p.delay, f.words()}.headline(q.Now, p, e.Certificate)
	e.Checks = append(e.Checks, events.checks()...)
	return e
}

// headline returns the rest of a sentence that begins with the request's name.
func (o outlook) headline(now time.Time, p progress, cert *Certificate) string {
	switch p.state {
	case certificates.Denied:
		return "was denied: " + p.reason
	case invalid:
		return "is invalid and is not signed: " + p.reason
	case certificates.Failed:
		return "failed at its " + o.signer + ": " + p.reason
	case certificates.Issued:
		return issued(now, cert)
	case certificates.Pending:
		if o.approval {
			return o.undecided()
		}
	}
	return o.unsigned()
}

// issued returns the rest of a sentence about a request that has its
// certificate.
func issued(now time.Time, cert *Certificate) string {
	switch {
	case cert == nil:
		return "has a certificate that cannot be read"
	case now.After(cert.NotAfter):
		return "was issued, and its certificate expired on " + cert.NotAfter.Format(time.RFC3339)
	case cert.Revocation != nil:
		return "was issued, and its certificate is revoked since " + cert.Revocation.String()
	default:
		return "is issued: its certificate is valid until " + cert.NotAfter.Format(time.RFC3339)
	}
}

// checkApproval returns the check of the approval. approved is the text of the condition
// Approved, empty without it; needed are the permissions that approval requires.
func (p progress) checkApproval(approved string, mayApprove Result, needed string) Check {
	switch {
	case p.state == certificates.Denied:
		return Check{"approval", No, p.reason}
	case approved != "":
		return Check{"approval", Yes, approved}
	case mayApprove == Yes:
		return Check{"approval", Open, "not decided yet; you may decide"}
	case mayApprove == No:
		return Check{"approval", Open, "not decided yet; you may not decide: that requires " + needed}
	default:
		return Check{"approval", Open, "not decided yet"}
	}
}

// checkSigning returns the check of the signer's answer.
func (p progress) checkSigning() Check {
	switch {
	case p.state == certificates.Issued:
		return Check{"signing", Yes, "signed"}
	case p.state == certificates.Failed:
		return Check{"signing", No, p.reason}
	case p.state == certificates.Denied:
		return Check{"signing", No, "denied requests are not signed"}
	case p.state == invalid:
		return Check{"signing", No, "invalid requests are not signed"}
	case p.delay != "":
		return Check{"signing", Open, p.delay}
	case p.state == certificates.Approved:
		return Check{"signing", Open, "not signed yet"}
	default:
		return Check{"signing", Open, "waits for approval"}
	}
}

// decideStep returns the step with the commands that decide a request.
func decideStep(mayApprove Result, approve, deny []string) Step {
	text := "To decide this request:"
	if mayApprove == No {
		text = "A user with the permission decides this request:"
	}
	return step(text, approve, deny)
}

// controllerStep returns the step if no controller of certplane has answered a
// request to an issuer.
func controllerStep(c rights.Controller) Step {
	return Step{Text: fmt.Sprintf("An issuer answers immediately where its controller runs: 'certplane serve', or 'certplane controllers' with the controller %s.", c.Name)}
}

// grantStep returns the step that grants a permission.
func (q Query) grantStep(mayCaller Result, purpose string, g grant) Step {
	s := step(grantText(mayCaller, purpose), q.typedBy(mayCaller).kubectl("apply", "-f", "-"))
	s.Input = g.manifest()
	return s
}

// grantText returns the text before commands that grant a permission.
func grantText(mayCaller Result, purpose string) string {
	if mayCaller == No {
		return purpose + ", as a user who may grant it:"
	}
	return purpose + ":"
}

// noReason is the text of a condition that gives no reason.
const noReason = "no reason given"

// conditionText returns the text of a condition.
func conditionText(reason, message string) string {
	switch {
	case message != "" && reason != "":
		return fmt.Sprintf("%s (%s)", message, reason)
	case message+reason != "":
		return message + reason
	}
	return noReason
}
