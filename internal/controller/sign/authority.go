package sign

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/internal/issuing/signer/metrics"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/worker"
)

const (
	// lookEvery is the interval at which a signer checks its CA.
	lookEvery = time.Minute
	// warnEvery is the interval between warnings that the CA expires soon.
	warnEvery = 24 * time.Hour
)

// caWatch warns operators in time before a signer's CA expires. Only Start uses
// it.
type caWatch struct {
	signerName string
	ca         CA
	clock      clock.PassiveClock
	warnBefore time.Duration
	metrics    *metrics.Metrics
	events     events.EventRecorder    // can be nil
	regarding  *corev1.ObjectReference // nil: no events

	warned worker.Seldom[string] // by the fingerprint of the CA
}

// Start implements manager.Runnable.
func (w *caWatch) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, w.look, lookEvery)
	return nil
}

// look updates when the CA expires. A missing CA is reported on the requests
// that wait for it.
func (w *caWatch) look(ctx context.Context) {
	authority, err := w.ca.Current()
	if err != nil {
		return
	}
	end := authority.Validity().NotAfter
	w.metrics.NotAfter.WithLabelValues(w.signerName).Set(float64(end.Unix()))
	now := w.clock.Now()
	if !now.Before(end.Add(-w.warnBefore)) && w.warned.Due(pki.Fingerprint(authority.Certificate()), now, warnEvery) {
		w.warn(ctx, end)
	}
}

func (w *caWatch) warn(ctx context.Context, end time.Time) {
	log.FromContext(ctx).Info("The signer's CA expires soon: replace it", "signer", w.signerName, "notAfter", end)
	if w.events != nil && w.regarding != nil {
		// The recorder merges Events that differ only in the note: the action
		// keeps signers apart.
		w.events.Eventf(w.regarding, nil, corev1.EventTypeWarning, "CAEndsSoon", controllerName(w.signerName),
			"The CA of signer %s expires on %s: replace it before then", w.signerName, end.Format(time.RFC3339))
	}
}
