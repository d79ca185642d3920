package explain

import (
	"fmt"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/rights"
)

// Explain returns the explanation that follows from the facts.
func (f *CertificateFacts) Explain() CertificateExplanation {
	crt := f.Certificate
	e := CertificateExplanation{
		Namespace: crt.Namespace, Name: crt.Name, UID: string(crt.UID), State: f.state(), Created: crt.CreationTimestamp.Time,
		Issuer: f.Issuer.String(), Secret: crt.Spec.SecretName, Revision: issuance.NextRevision(crt) - 1,
		NotBefore: InUTC(crt.Status.NotBefore), NotAfter: InUTC(crt.Status.NotAfter), RenewalTime: InUTC(crt.Status.RenewalTime),
		SuggestedRenewal: SuggestedRenewalOf(crt),
		Checks:           f.checks(), Events: f.Events.List, Next: f.steps(),
	}
	if until := f.heldUntil(); !until.IsZero() {
		e.RetryTime = &until
	}
	e.Verdict = crt.Name + " " + f.verdict(e.State)
	return e
}

func (f *CertificateFacts) state() CertificateState {
	ready := certmanager.CertificateIs(f.Certificate, cmv1.CertificateConditionReady)
	issuing := certmanager.CertificateCondition(f.Certificate, cmv1.CertificateConditionIssuing)
	switch {
	case f.IsIssuing() && ready:
		return CertificateRenewing
	case f.IsIssuing():
		return CertificateIssuing
	case ready:
		return CertificateReady
	case issuing != nil && f.Certificate.Status.LastFailureTime != nil:
		return CertificateFailed
	default:
		return CertificateNotReady
	}
}

// IsIssuing reports whether a certificate is being issued.
func (f *CertificateFacts) IsIssuing() bool {
	return certmanager.CertificateIs(f.Certificate, cmv1.CertificateConditionIssuing)
}

// heldUntil returns the end of the back-off after a failed attempt, if the
// server has the default back-off. It is zero if the back-off is over, or if no
// attempt has failed.
func (f *CertificateFacts) heldUntil() time.Time {
	if until := issuance.DefaultBackoff().Until(f.Situation); !f.IsIssuing() && until.After(f.Now) {
		return until
	}
	return time.Time{}
}

// conflicting returns the other Certificate that owns the Secret, or nil.
func (f *CertificateFacts) conflicting() *cmv1.Certificate {
	if f.Owner == nil || f.Owner.Name == f.Certificate.Name {
		return nil
	}
	return f.Owner
}

// conditionTextOf returns the text of a condition.
func (f *CertificateFacts) conditionTextOf(kind cmv1.CertificateConditionType) string {
	c := certmanager.CertificateCondition(f.Certificate, kind)
	if c == nil {
		return noReason
	}
	return conditionText(c.Reason, c.Message)
}

// verdict returns the rest of a sentence that begins with the Certificate's
// name.
func (f *CertificateFacts) verdict(state CertificateState) string {
	switch crt := f.Certificate; {
	case !crt.DeletionTimestamp.IsZero():
		return "is being deleted, and nothing is issued for it"
	case f.conflicting() != nil:
		return fmt.Sprintf("gets no certificate: its Secret %s belongs to Certificate %s, which names it too", crt.Spec.SecretName, f.conflicting().Name)
	case state == CertificateReady:
		return f.present()
	case state == CertificateRenewing:
		return f.present() + "; its next certificate is under way: " + f.progress()
	case state == CertificateIssuing:
		return "is not ready, and its certificate is under way: " + f.progress()
	case state == CertificateFailed:
		return "is not ready, as its issuance has failed: " + f.conditionTextOf(cmv1.CertificateConditionIssuing) + f.retry()
	case certmanager.CertificateCondition(crt, cmv1.CertificateConditionReady) == nil:
		return f.untouched()
	default:
		return "is not ready: " + f.conditionTextOf(cmv1.CertificateConditionReady)
	}
}

// present returns the text about the current certificate. The condition Ready
// can be older than the certificate's actual state.
func (f *CertificateFacts) present() string {
	if why := f.outdated(); why != "" {
		return why
	}
	return "is ready" + f.validity()
}

// outdated returns why a Certificate whose condition says that it is ready is
// not ready, in words that follow its name; empty if it is ready. The condition
// can be older than the last change.
func (f *CertificateFacts) outdated() string {
	crt := f.Certificate
	switch until := crt.Status.NotAfter; {
	case f.SecretExists == No:
		return fmt.Sprintf("has lost its Secret %s, and no controller has reported it yet", crt.Spec.SecretName)
	case until != nil && f.Now.After(until.Time):
		return "was ready, and its certificate expired on " + until.UTC().Format(time.RFC3339)
	case f.stale(cmv1.CertificateConditionReady):
		return "was ready before the last change of its spec, and no controller has processed that yet"
	default:
		return ""
	}
}

// stale reports whether a condition describes the spec before its last change.
func (f *CertificateFacts) stale(kind cmv1.CertificateConditionType) bool {
	c := certmanager.CertificateCondition(f.Certificate, kind)
	return c != nil && c.ObservedGeneration < f.Certificate.Generation
}

func (f *CertificateFacts) validity() string {
	text := ""
	if until := f.Certificate.Status.NotAfter; until != nil {
		text = ": its certificate is valid until " + until.UTC().Format(time.RFC3339)
	}
	if at := f.Certificate.Status.RenewalTime; at != nil {
		text += " and renewed at " + at.UTC().Format(time.RFC3339)
	}
	return text
}

// progress returns the text about the progress of an issuance.
func (f *CertificateFacts) progress() string {
	if f.Next != nil && !f.isAnswered() {
		return f.Next.explain().Verdict
	}
	return f.conditionTextOf(cmv1.CertificateConditionIssuing)
}

// isAnswered reports whether the next certificate has been issued, and only has to be
// written. The condition Issuing reports what the write waits for.
func (f *CertificateFacts) isAnswered() bool {
	return f.Next != nil && f.Next.progress().state == certificates.Issued
}

func (f *CertificateFacts) retry() string {
	until := f.heldUntil()
	if until.IsZero() {
		return ""
	}
	return fmt.Sprintf("; the next attempt is at %s", until.UTC().Format(time.RFC3339))
}

func (f *CertificateFacts) untouched() string {
	age := f.Now.Sub(f.Certificate.CreationTimestamp.Time)
	if age < answerGrace {
		return "is new, and no controller has processed it yet"
	}
	return fmt.Sprintf("is not ready, and no controller has processed it for %s", duration.HumanDuration(age))
}

// checks returns the checks in the order in which they matter.
func (f *CertificateFacts) checks() []Check {
	checks := []Check{
		f.checkCondition("ready", cmv1.CertificateConditionReady, "no controller has processed it yet"),
		f.checkCondition("issuing", cmv1.CertificateConditionIssuing, "no certificate is under way"),
		f.checkSecret(),
	}
	if len(f.others) > 0 {
		checks = append(checks, f.checkConflicts())
	}
	checks = append(checks, f.checkNext())
	if f.Next != nil && !f.isAnswered() {
		checks = append(checks, f.Next.ordered.checks()...)
	}
	checks = append(checks, f.Issuer.check())
	for _, password := range f.passwords {
		checks = append(checks, password.check("password"))
	}
	if until := f.heldUntil(); !until.IsZero() {
		checks = append(checks, Check{"back-off", No, fmt.Sprintf(
			"failures in a row: %d, the last at %s; the next attempt is at %s, unless the server's certManager.backoffMin and backoffMax are not the default",
			f.attempts(), f.Certificate.Status.LastFailureTime.UTC().Format(time.RFC3339), until.UTC().Format(time.RFC3339))})
	}
	return append(checks, f.Events.checks()...)
}

func (f *CertificateFacts) attempts() int {
	if n := f.Certificate.Status.FailedIssuanceAttempts; n != nil {
		return *n
	}
	return 1
}

func (f *CertificateFacts) checkCondition(name string, kind cmv1.CertificateConditionType, absent string) Check {
	c := certmanager.CertificateCondition(f.Certificate, kind)
	if c == nil {
		return Check{name, Open, absent}
	}
	message := conditionText(c.Reason, c.Message)
	if f.stale(kind) {
		message += "; that is about the spec before its last change"
	}
	return Check{name, resultOf(c.Status), message}
}

func (f *CertificateFacts) checkSecret() Check {
	name := f.Certificate.Spec.SecretName
	switch f.SecretExists {
	case Yes:
		return Check{"secret", Yes, name + " " + madeFor(f.Secret)}
	case No:
		return Check{"secret", No, name + " does not exist yet"}
	default:
		return Check{"secret", Unknown, mayNotRead("get", "secrets", f.Certificate.Namespace)}
	}
}

func (f *CertificateFacts) checkConflicts() Check {
	if conflicting := f.conflicting(); conflicting != nil {
		return Check{"secretName", No, fmt.Sprintf("Certificate %s names the same Secret and owns it", conflicting.Name)}
	}
	return Check{"secretName", Yes, fmt.Sprintf("is owned by this Certificate; others that name it get nothing: %s", strings.Join(f.others, ", "))}
}

func (f *CertificateFacts) checkNext() Check {
	switch {
	case f.RequestsUnknown != "":
		return Check{"request", Unknown, f.RequestsUnknown}
	case f.Next != nil:
		return Check{"request", map[bool]Result{true: Open, false: No}[f.IsIssuing()], f.progress()}
	case f.IsIssuing():
		return Check{"request", Open, fmt.Sprintf("the one for certificate number %d does not exist yet", issuance.NextRevision(f.Certificate))}
	default:
		return Check{"request", Yes, "none is needed"}
	}
}

// steps returns the next steps for a Certificate.
func (f *CertificateFacts) steps() []Step {
	crt, state := f.Certificate, f.state()
	switch {
	case !crt.DeletionTimestamp.IsZero():
		return nil
	case f.conflicting() != nil:
		return []Step{step("Choose another spec.secretName for one of the two, or delete one:",
			f.kubectl("edit", issuedCertificates.resource, "-n", crt.Namespace, crt.Name))}
	case state == CertificateReady:
		return []Step{step("To renew it now:", f.renew())}
	case state == CertificateFailed:
		return append(f.issuerSteps(), step("After fixing the cause, retry immediately with this command, or by changing the spec:", f.renew()))
	case f.IsIssuing() && f.Next != nil:
		return append(f.nextUnderWay(), step("To see everything about the request:",
			f.explainCommand(certificateRequests, client.ObjectKeyFromObject(f.Next.Request))))
	case !f.IsIssuing() && certmanager.CertificateIs(crt, issuance.ConditionRevoked):
		return []Step{step("To issue another one:", f.renew())}
	default:
		return f.nextUntouched()
	}
}

// nextUnderWay returns the steps that let an issuance continue.
func (f *CertificateFacts) nextUnderWay() []Step {
	var steps []Step
	for _, password := range f.passwords {
		steps = append(steps, password.steps(f.Query, f.isAnswered())...)
	}
	if p := f.Next.progress(); p.open() {
		steps = append(steps, f.Next.steps(p)...)
	}
	return steps
}

func (f *CertificateFacts) nextUntouched() []Step {
	steps := f.issuerSteps()
	if certmanager.CertificateCondition(f.Certificate, cmv1.CertificateConditionReady) == nil {
		steps = append(steps, Step{Text: "Certificates are processed immediately where their controller runs: 'certplane serve', or 'certplane controllers' with the controller " + rights.IssueCertificates.Name + "."})
	}
	return steps
}

// issuerSteps returns the next steps for an issuer that cannot sign.
func (f *CertificateFacts) issuerSteps() []Step { return f.Issuer.steps(f.Query, correctReference) }

func (f *CertificateFacts) renew() []string {
	return f.Certplane("renew", "-n", f.Certificate.Namespace, f.Certificate.Name)
}
