package sign

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/signer"
)

type (
	csr       = certificatesv1.CertificateSigningRequest
	condition = certificatesv1.CertificateSigningRequestCondition
)

// ConditionDelayed says that a request is approved and waits for its signer,
// not for its requester. It goes away with the certificate or with Failed.
const ConditionDelayed certificatesv1.RequestConditionType = "SigningDelayed"

// maxMessage bounds what a condition quotes of a request. With what marks the
// cut it fits the note of an Event, which has at most 1024 bytes.
const maxMessage = 1021

// actionable tells whether a request waits for this signer. Approved and
// Denied count by their presence alone; their status can only be True.
func actionable(c *csr, ours func(signerName string) bool) bool {
	return open(c, ours) && certificates.Condition(c, certificatesv1.CertificateApproved) != nil
}

// undecided tells whether a request of this signer waits for its approval.
func undecided(c *csr, ours func(signerName string) bool) bool {
	return open(c, ours) && certificates.Condition(c, certificatesv1.CertificateApproved) == nil
}

func open(c *csr, ours func(signerName string) bool) bool {
	return ours(c.Spec.SignerName) &&
		len(c.Status.Certificate) == 0 &&
		certificates.Condition(c, certificatesv1.CertificateDenied) == nil &&
		!failed(c)
}

func failed(c *csr) bool {
	return slices.ContainsFunc(c.Status.Conditions, func(cond condition) bool {
		return cond.Type == certificatesv1.CertificateFailed && (cond.Status == corev1.ConditionTrue || cond.Status == "")
	})
}

// request is what the signer gets to see.
func request(c *csr) signer.Request {
	req := signer.Request{
		Name: c.Name, UID: string(c.UID), SignerName: c.Spec.SignerName,
		Requester: signer.Requester{Username: c.Spec.Username, UID: c.Spec.UID, Groups: c.Spec.Groups},
		PEM:       c.Spec.Request, Usages: c.Spec.Usages, Annotations: c.Annotations,
	}
	for key, values := range c.Spec.Extra {
		if req.Requester.Extra == nil {
			req.Requester.Extra = map[string][]string{}
		}
		req.Requester.Extra[key] = values
	}
	if c.Spec.ExpirationSeconds != nil {
		duration := time.Duration(*c.Spec.ExpirationSeconds) * time.Second
		req.Duration = &duration
	}
	return req
}

// outcome is what becomes of a request.
type outcome struct {
	// issued is the certificate, or nil.
	issued *signer.Issued
	// condition says why there is none.
	condition *condition
	// note is what the event about the condition says.
	note string
	// retry is why it has to be tried again, or nil.
	retry error
	// after is when; 0 leaves it to the queue.
	after time.Duration
}

// decide makes an outcome of a signer's answer.
func decide(issued *signer.Issued, err error, now time.Time) outcome {
	var permanent *signer.PermanentError
	var pending *signer.PendingError
	switch {
	case err == nil:
		return outcome{issued: issued}
	case errors.As(err, &permanent):
		cond := newCondition(certificatesv1.CertificateFailed, permanent.Reason, err.Error(), now)
		return outcome{condition: cond, note: cond.Message}
	case errors.As(err, &pending):
		cond := newCondition(ConditionDelayed, pending.Reason, pending.Message, now)
		return outcome{condition: cond, note: cmp.Or(presentable(pending.Note), cond.Message), retry: err, after: pending.RetryAfter}
	default:
		return decide(nil, signer.Unavailable(err), now)
	}
}

func newCondition(kind certificatesv1.RequestConditionType, reason, message string, now time.Time) *condition {
	return &condition{
		Type:           kind,
		Status:         corev1.ConditionTrue,
		Reason:         reason,
		Message:        presentable(message),
		LastUpdateTime: metav1.NewTime(now),
	}
}

// presentable makes a message, which can quote the request, fit for the API.
func presentable(message string) string {
	if len(message) > maxMessage {
		message = message[:maxMessage] + "..."
	}
	return strings.ToValidUTF8(message, "")
}

// on tells whether c shows the outcome already.
func (o outcome) on(c *csr) bool {
	if o.issued != nil {
		return bytes.Equal(c.Status.Certificate, o.issued.PEM)
	}
	got := certificates.Condition(c, o.condition.Type)
	return got != nil && got.Reason == o.condition.Reason && got.Message == o.condition.Message
}

// apply returns a copy of c that shows the outcome.
func (o outcome) apply(c *csr) *csr {
	c = c.DeepCopy()
	c.Status.Conditions = slices.DeleteFunc(c.Status.Conditions, func(cond condition) bool { return cond.Type == ConditionDelayed })
	if o.issued != nil {
		c.Status.Certificate = o.issued.PEM
	} else {
		c.Status.Conditions = append(c.Status.Conditions, *o.condition)
	}
	return c
}
