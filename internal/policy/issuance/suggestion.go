package issuance

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance/renewal"
	"github.com/certplane/certplane/internal/process/backoff"
)

// The reasons of Events about renewal information.
const (
	EventRenewalSuggested = "RenewalSuggested"
	EventSuggestionError  = "ARIError"
)

// AskAt returns when the CA of a Certificate is to be asked for renewal
// information (RFC 9773), from its status alone. It is zero while there is
// nothing to ask about: without a certificate, with one that has expired, is being
// replaced, or is not renewed by time.
func AskAt(crt *cmv1.Certificate, now time.Time) time.Time {
	until := crt.Status.NotAfter
	if isDeleted(crt) || isIssuing(crt) || renewal.IsDisabled(&crt.Spec) || until == nil || !now.Before(until.Time) {
		return time.Time{}
	}
	next := time.Time{}
	if ari := suggestion(crt); ari != nil && ari.NextCheck != nil {
		next = ari.NextCheck.Time
	}
	if renewal.IsDue(next, now) {
		return now
	}
	return next
}

// suggestion returns the known renewal information, or nil.
func suggestion(crt *cmv1.Certificate) *cmv1.CertificateACMEARIStatus {
	if crt.Status.ACME == nil {
		return nil
	}
	return crt.Status.ACME.ARI
}

// AskAbout returns the certificate that the issuer is asked about: the one in the
// Secret, if the status describes it and the issuer in the Certificate's spec has
// issued it. It is nil if there is none.
func AskAbout(s Situation, now time.Time) *x509.Certificate {
	i := inspect(s, now)
	wrong := i.find((*inspection).checkConflicting, (*inspection).checkExists, (*inspection).checkData, (*inspection).checkPair,
		(*inspection).checkTemporary, (*inspection).checkIssuer, (*inspection).checkName)
	if !wrong.None() || !i.isDescribed() {
		return nil
	}
	return i.leaf
}

// isDescribed reports whether the status is about the certificate in the Secret.
func (i *inspection) isDescribed() bool {
	status := i.Certificate.Status
	return i.leaf != nil && status.NotBefore != nil && status.NotAfter != nil &&
		status.NotBefore.Time.Equal(i.leaf.NotBefore) && status.NotAfter.Time.Equal(i.leaf.NotAfter)
}

// followsSuggestion reports whether what the status has of renewal information
// is about the certificate in the Secret, and counts.
func (i *inspection) followsSuggestion() bool {
	return suggestion(i.Certificate) != nil && !i.IgnoresSuggestions && !renewal.IsDisabled(i.spec()) &&
		i.isDescribed() && i.checkIssuer().None()
}

// suggested returns the time that was chosen in the window of the CA. It is zero
// if there is none: the certificate is then renewed by its spec.
func (i *inspection) suggested() time.Time {
	at := i.Certificate.Status.RenewalTime
	if !i.followsSuggestion() || at == nil {
		return time.Time{}
	}
	if _, ok := windowOf(suggestion(i.Certificate)); !ok {
		return time.Time{}
	}
	return at.Time
}

// windowOf returns the window of the CA; ok is false if there is none.
func windowOf(ari *cmv1.CertificateACMEARIStatus) (w renewal.Window, ok bool) {
	if ari == nil || ari.SuggestedWindow == nil || ari.SuggestedWindow.Start == nil || ari.SuggestedWindow.End == nil {
		return renewal.Window{}, false
	}
	return renewal.NewWindow(ari.SuggestedWindow.Start.Time, ari.SuggestedWindow.End.Time), true
}

// Suggestion is an answer of a CA.
type Suggestion struct {
	// Info is nil if the CA has no renewal information.
	Info *rfc8555.RenewalInfo
	// Err, if not nil, is why the CA gave no answer.
	Err error
	// Until, unless zero, is when the CA may be asked again after an error.
	Until time.Time
}

// IsNone reports whether the CA has no renewal information.
func (s Suggestion) IsNone() bool { return s.Info == nil && s.Err == nil }

// Suggest writes the answer of the CA about a certificate into the status of crt. If the
// window is new, it chooses the time of the renewal in it. SetReadiness must be called
// afterwards, with the result of Ready for crt.
func Suggest(crt *cmv1.Certificate, leaf *x509.Certificate, answer Suggestion, now time.Time, random backoff.Jitter) {
	if answer.IsNone() {
		crt.Status.ACME = nil
		return
	}
	ari := &cmv1.CertificateACMEARIStatus{}
	if answer.Err == nil {
		answer.Err = follow(crt, ari, leaf, *answer.Info, now, random)
	}
	if answer.Err != nil {
		fail(ari, suggestion(crt), answer, now, random)
	}
	ari.LastChecked = timePtr(now)
	crt.Status.ACME = &cmv1.CertificateACMEStatus{ARI: ari}
}

// errImpossible is the error for a window that cannot belong to the certificate.
var errImpossible = fmt.Errorf("%w: the suggested window ended long before the certificate began", rfc8555.ErrNoWindow)

// follow takes over a window.
func follow(crt *cmv1.Certificate, ari *cmv1.CertificateACMEARIStatus, leaf *x509.Certificate, info rfc8555.RenewalInfo, now time.Time, random backoff.Jitter) error {
	v := pki.Validity{NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter}
	w := renewal.NewWindow(info.Start, info.End)
	if !w.IsPossible(v) {
		return errImpossible
	}
	known, ok := windowOf(suggestion(crt))
	if at := crt.Status.RenewalTime; !ok || !known.Equal(w) || at == nil || !w.Has(at.Time, &crt.Spec, v) {
		crt.Status.RenewalTime = timePtr(w.Choose(&crt.Spec, v, random))
	}
	ari.SuggestedWindow = &cmv1.ACMERenewalWindow{Start: timePtr(w.Start), End: timePtr(w.End)}
	if u, err := url.Parse(info.ExplanationURL); err == nil && (u.Scheme == "https" || u.Scheme == "http") {
		ari.ExplanationURL = info.ExplanationURL
	}
	ari.NextCheck = timePtr(now.Add(renewal.NextAsk(until(info.RetryAfter, now), random)))
	return nil
}

// maxSuggestionError is how much of an error is stored, in bytes.
const maxSuggestionError = 1000

// fail takes note of an error. The last window counts while the error can pass.
func fail(ari, before *cmv1.CertificateACMEARIStatus, answer Suggestion, now time.Time, random backoff.Jitter) {
	var last time.Duration
	if before != nil && before.LastError != "" && before.NextCheck != nil && before.LastChecked != nil {
		last = before.NextCheck.Sub(before.LastChecked.Time)
	}
	wait, final := renewal.NextAskAfterError(last, until(answer.Until, now), canPass(answer.Err), random)
	if before != nil && !final {
		ari.SuggestedWindow, ari.ExplanationURL = before.SuggestedWindow, before.ExplanationURL
	}
	ari.NextCheck = timePtr(now.Add(wait))
	ari.LastError = answer.Err.Error()
	if len(ari.LastError) > maxSuggestionError {
		ari.LastError = strings.ToValidUTF8(ari.LastError[:maxSuggestionError], "")
	}
}

// canPass reports whether an error is temporary (RFC 9773 section 4.3.3).
func canPass(err error) bool {
	problem := new(rfc8555.Problem)
	switch {
	case errors.Is(err, rfc8555.ErrNoWindow):
		return false
	case errors.As(err, &problem):
		const timeout, tooMany = 408, 429 // RFC 9110 section 15.5.9, RFC 6585 section 4
		return problem.Status/100 != 4 || problem.Status == timeout || problem.Status == tooMany
	}
	return true
}

// until returns the time from now until at, which is more than 0; 0 if at is
// zero.
func until(at, now time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(at.Sub(now), 1)
}

// SuggestionFinding returns the finding about an answer that has changed the status from
// before's to after's: an error, or a window that is not the first one of its certificate
// or has an explanation. isError is set for an error.
func SuggestionFinding(before, after *cmv1.Certificate) (what Finding, isError bool) {
	was, is := suggestion(before), suggestion(after)
	if is == nil {
		return Finding{}, false
	}
	if was == nil {
		was = &cmv1.CertificateACMEARIStatus{}
	}
	if is.LastError != "" {
		if was.LastError != "" {
			return Finding{}, true
		}
		return found(EventSuggestionError, "Could not fetch ACME Renewal Information: %s", is.LastError), true
	}
	w, _ := windowOf(is)
	known, ok := windowOf(was)
	moved := ok && !known.Equal(w)
	if !moved && (is.ExplanationURL == "" || is.ExplanationURL == was.ExplanationURL) {
		return Finding{}, false
	}
	text := fmt.Sprintf("The CA suggests a renewal between %s and %s", w.Start.UTC().Format(time.RFC3339), w.End.UTC().Format(time.RFC3339))
	if at := after.Status.RenewalTime; at != nil {
		text += ", the certificate is renewed at " + at.UTC().Format(time.RFC3339)
	}
	if is.ExplanationURL != "" {
		text += ": see " + is.ExplanationURL
	}
	return Finding{Reason: EventRenewalSuggested, Message: text}, false
}
