package approving

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/internal/policy/approval"
)

// The reasons why a request is not approved, as Events and metrics show them.
const (
	// reasonNotRecognised means that the request is not what its signer is for.
	reasonNotRecognised = "NotRecognised"
	// reasonNotPermitted means that the requester lacks a permission.
	reasonNotPermitted = "NotPermitted"
	// reasonUnavailable means that the approver cannot ask or write at present.
	reasonUnavailable = "ApproverUnavailable"
)

// reporter reports to operators and requesters what has become of requests.
type reporter struct {
	metrics *metrics
	event   func(about client.Object, kind, reason, text string)
}

func (r reporter) approved(ctx context.Context, c *csr, by approval.Recogniser, took time.Duration) {
	// The signer also logs the requester of the certificate.
	log.FromContext(ctx).V(1).Info("Approved request", "uid", c.UID, "requester", c.Spec.Username, "recogniser", by.Name)
	r.metrics.approved.WithLabelValues(c.Spec.SignerName, by.Name).Inc()
	r.metrics.duration.WithLabelValues(c.Spec.SignerName).Observe(took.Seconds())
}

func (r reporter) unrecognised(ctx context.Context, c *csr, why error) {
	r.leave(ctx, c, reasonNotRecognised, "Left for approval by hand: not a kubelet's request for its client certificate: "+why.Error())
}

func (r reporter) notPermitted(ctx context.Context, c *csr, why *approval.NotPermittedError) {
	r.leave(ctx, c, reasonNotPermitted, "Left for approval by hand: "+why.Error())
}

// leave reports a request that only a person can approve now.
func (r reporter) leave(ctx context.Context, c *csr, reason, note string) {
	log.FromContext(ctx).V(1).Info("Left request for approval by hand", "uid", c.UID, "requester", c.Spec.Username, "reason", reason)
	r.metrics.notApproved.WithLabelValues(c.Spec.SignerName, reason).Inc()
	r.event(c, corev1.EventTypeWarning, reason, note)
}

// unavailable does not report the cause, which is logged.
func (r reporter) unavailable(c *csr) {
	r.event(c, corev1.EventTypeWarning, reasonUnavailable, "The approver cannot decide at present; it keeps trying")
}
