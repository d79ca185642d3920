package podsign

import (
	"errors"
	"strings"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/policy/profile"
	"github.com/certplane/certplane/internal/signer"
	"github.com/certplane/certplane/internal/signer/declared"
)

// The conditions that answer a request.
const (
	conditionIssued = certificatesv1beta1.PodCertificateRequestConditionTypeIssued
	conditionDenied = certificatesv1beta1.PodCertificateRequestConditionTypeDenied
	conditionFailed = certificatesv1beta1.PodCertificateRequestConditionTypeFailed
)

// reasonIssued is that of the Issued condition.
const reasonIssued = "Issued"

// maxMessage bounds what a condition quotes of a request. With what marks the
// cut it fits the note of an Event, which has at most 1024 bytes.
const maxMessage = 1021

// pending tells whether a request waits for an answer.
func pending(req *request) bool {
	for _, kind := range []string{conditionIssued, conditionDenied, conditionFailed} {
		if meta.FindStatusCondition(req.Status.Conditions, kind) != nil {
			return false
		}
	}
	return true
}

// outcome is what becomes of a request.
type outcome struct {
	// issued is the certificate, or nil.
	issued *declared.Issued
	// condition answers the request, unless it has to be tried again.
	condition metav1.Condition
	// retry is why it has to be tried again, and reason and note what to say of
	// that.
	retry        error
	reason, note string
	// after is when; 0 leaves it to the queue.
	after time.Duration
}

// decide makes an outcome of a signer's answer. What the signer's profile
// refuses is denied; what is wrong with the request whatever the signer is has
// failed; all else is the signer's trouble and goes away (KEP-4317).
func decide(issued *declared.Issued, err error, now time.Time) outcome {
	var refusal *profile.Refusal
	var permanent *signer.PermanentError
	var pending *signer.PendingError
	switch {
	case err == nil:
		return outcome{issued: issued, condition: newCondition(conditionIssued, reasonIssued, "The signer has issued a certificate", now)}
	case errors.As(err, &refusal):
		return outcome{condition: newCondition(conditionDenied, refusal.Reason, refusal.Message, now)}
	case errors.As(err, &permanent):
		return outcome{condition: newCondition(conditionFailed, permanent.Reason, permanent.Error(), now)}
	case errors.As(err, &pending):
		note := pending.Note
		if note == "" {
			note = pending.Message
		}
		return outcome{retry: err, reason: pending.Reason, note: presentable(note), after: pending.RetryAfter}
	default:
		return decide(nil, signer.Unavailable(err), now)
	}
}

func newCondition(kind, reason, message string, now time.Time) metav1.Condition {
	return metav1.Condition{
		Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: presentable(message),
		LastTransitionTime: metav1.NewTime(now),
	}
}

// presentable makes a message, which can quote the request, fit for the API.
func presentable(message string) string {
	if len(message) > maxMessage {
		message = message[:maxMessage] + "..."
	}
	return strings.ToValidUTF8(message, "")
}

// on tells whether req shows the outcome already.
func (o outcome) on(req *request) bool {
	if o.issued != nil {
		return req.Status.CertificateChain == string(o.issued.PEM)
	}
	got := meta.FindStatusCondition(req.Status.Conditions, o.condition.Type)
	return got != nil && got.Reason == o.condition.Reason && got.Message == o.condition.Message
}

// apply returns a copy of req that shows the outcome.
func (o outcome) apply(req *request) *request {
	req = req.DeepCopy()
	req.Status.Conditions = append(req.Status.Conditions, o.condition)
	if o.issued != nil {
		leaf := o.issued.Certificate
		req.Status.CertificateChain = string(o.issued.PEM)
		req.Status.NotBefore = inSeconds(leaf.NotBefore)
		req.Status.NotAfter = inSeconds(leaf.NotAfter)
		req.Status.BeginRefreshAt = inSeconds(o.issued.RefreshAt)
	}
	return req
}

func inSeconds(t time.Time) *metav1.Time {
	seconds := metav1.NewTime(t.Truncate(time.Second))
	return &seconds
}
