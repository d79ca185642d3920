package podsign

import (
	"errors"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/issuing/outcome"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/policy/profile"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/process/eventtext"
)

// The conditions that answer a request.
const (
	conditionIssued = certificatesv1beta1.PodCertificateRequestConditionTypeIssued
	conditionDenied = certificatesv1beta1.PodCertificateRequestConditionTypeDenied
	conditionFailed = certificatesv1beta1.PodCertificateRequestConditionTypeFailed
)

// reasonIssued is the reason of the Issued condition.
const reasonIssued = "Issued"

// pending reports whether a request waits for an answer.
func pending(req *podRequest) bool {
	for _, kind := range conditions {
		if meta.FindStatusCondition(req.Status.Conditions, kind) != nil {
			return false
		}
	}
	return true
}

// decide turns a signer's answer into an outcome. A request that the signer's
// profile or a policy refuses is denied. A request that is wrong for any signer has failed.
// Every other error is a problem of the signer and temporary (KEP-4317).
func decide(issued *signer.Issued, err error) outcome.Outcome {
	var refusal *profile.Refusal
	if errors.As(err, &refusal) {
		return outcome.Outcome{State: outcome.Denied, Reason: refusal.Reason, Message: eventtext.Fit(refusal.Message)}
	}
	var denied *quorum.Refusal
	if errors.As(err, &denied) {
		return outcome.Outcome{State: outcome.Denied, Reason: denied.Reason, Message: eventtext.Fit(denied.Message)}
	}
	o := outcome.Decide(issued, err, reasonIssued)
	if o.Issued != nil {
		o.Message = "The signer has issued a certificate"
	}
	return o
}

// conditions are the types of the conditions that answer a request.
var conditions = map[outcome.State]string{
	outcome.Issued: conditionIssued, outcome.Denied: conditionDenied, outcome.Failed: conditionFailed,
}

// shows reports whether req shows the outcome already. The API has no field for
// why a request waits.
func shows(req *podRequest, o outcome.Outcome) bool {
	if o.Issued != nil {
		return req.Status.CertificateChain == string(o.Issued.PEM)
	}
	got := meta.FindStatusCondition(req.Status.Conditions, conditions[o.State])
	return got != nil && got.Reason == o.Reason && got.Message == o.Message
}

// apply returns a copy of req that shows the outcome.
func apply(req *podRequest, o outcome.Outcome, now time.Time) *podRequest {
	req = req.DeepCopy()
	req.Status.Conditions = append(req.Status.Conditions, metav1.Condition{
		Type: conditions[o.State], Status: metav1.ConditionTrue, Reason: o.Reason, Message: o.Message, LastTransitionTime: metav1.NewTime(now),
	})
	if o.Issued != nil {
		leaf := o.Issued.Certificate
		req.Status.CertificateChain = string(o.Issued.PEM)
		req.Status.NotBefore = inSeconds(leaf.NotBefore)
		req.Status.NotAfter = inSeconds(leaf.NotAfter)
		req.Status.BeginRefreshAt = inSeconds(o.Issued.RefreshAt)
	}
	return req
}

func inSeconds(t time.Time) *metav1.Time {
	seconds := metav1.NewTime(t.Truncate(time.Second))
	return &seconds
}
