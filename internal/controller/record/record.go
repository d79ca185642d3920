// Package record keeps the inventory of a cluster: the records of issued certificates.
package record

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"sync"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api/served"
	"github.com/certplane/certplane/internal/inventory"
	"github.com/certplane/certplane/internal/issuing/outcome"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/process/collector"
	"github.com/certplane/certplane/internal/process/eventtext"
	"github.com/certplane/certplane/internal/process/steadyclock"
	"github.com/certplane/certplane/internal/process/worker"
)

const (
	name = "record"
	// patience is how long a certificate waits for its record, and leastPatience how long it
	// waits for an inventory that could not be written for longer already.
	patience      = 2 * time.Second
	leastPatience = 100 * time.Millisecond
	// nearlyFull is the share of maxMiB from which certificates of pods are not recorded.
	nearlyFull = 0.9
)

// Config configures a Recorder.
type Config struct {
	// Client is the controller's own identity, past caches. It needs create, delete, get, list
	// and update on certificatepacks in Namespace.
	Client    client.Client
	Namespace string
	// Requests is the cache of requests of the kinds in Settings.
	Requests cache.Cache
	// Versions returns the resources of a version of the API.
	Versions worker.Lookup
	Settings Settings
	// Policies know which policy approved a request, and who voted. It can be nil.
	Policies *policies.Policies
	// PolicyApprover is the user who approves for policies, and CertificateUser the one who
	// makes the requests of Certificates: requests of others only claim to belong to one.
	PolicyApprover, CertificateUser string
	// Full is the object that an Event is about when the records take all their space.
	Full    *corev1.ObjectReference
	Events  events.EventRecorder
	Metrics prometheus.Registerer
	// Now is the present time.
	Now func() time.Time
}

// Recorder records certificates. Its methods work from the beginning; Start records those that
// others have signed. It is safe for concurrent use.
type Recorder struct {
	Config
	packs *inventory.Packs
	// dropped counts certificates that are not recorded for lack of space, by kind; late
	// counts those that were issued before they were recorded.
	dropped, late *prometheus.CounterVec

	mu sync.Mutex
	// recorded are the UIDs of the requests whose certificates are recorded or dropped.
	recorded map[types.UID]struct{}
	// due are requests with certificates that may have to be recorded.
	due map[types.UID]client.Object
}

// New returns a recorder.
func New(cfg Config) (*Recorder, error) {
	r := &Recorder{Config: cfg, recorded: map[types.UID]struct{}{}, due: map[types.UID]client.Object{}}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "certplane", Subsystem: "inventory", Name: name, Help: help}, []string{"kind"})
	}
	r.dropped = counter("dropped_total", "Number of certificates that were not recorded because the records take all the space that they may take, by the kind of the request.")
	r.late = counter("late_total", "Number of certificates that were issued before they were recorded, by the kind of the request.")
	for _, one := range []**prometheus.CounterVec{&r.dropped, &r.late} {
		if err := collector.Share(cfg.Metrics, one); err != nil {
			return nil, fmt.Errorf("registering the metrics of the inventory: %w", err)
		}
	}
	var err error
	r.packs, err = inventory.NewPacks(inventory.PacksConfig{
		Client: cfg.Client, Namespace: cfg.Namespace, Keep: cfg.Settings.Keep.Duration, MaxBytes: int64(cfg.Settings.MaxMiB) << 20,
		Now: steadyclock.Of(cfg.Now).Now, Metrics: cfg.Metrics,
		Damaged: func(err error) { log.Log.WithName(name).Error(err, "Skipping a part of the inventory") },
	})
	return r, err
}

// Record is an outcome.Record. If a certificate cannot be recorded in time, it fails if the
// settings require records; otherwise it reports that, and Start records the certificate later.
func (r *Recorder) Record(ctx context.Context, request client.Object, certificate []byte) error {
	answered, ok := inventory.Look(request)
	if !ok || !slices.Contains(r.Settings.Kinds, answered.Kind()) {
		return nil
	}
	answered.Certificate = certificate
	record, err := r.recordOf(answered, metav1.NewTime(r.Now().UTC().Truncate(time.Second)))
	if err != nil {
		return nil //nolint:nilerr // the API server decides whether it accepts the certificate
	}
	if !r.admit(ctx, answered.Kind()) {
		r.note(answered.UID())
		return nil
	}
	if err = r.write(ctx, record); err == nil {
		r.note(answered.UID())
		return nil
	}
	if r.Settings.Required {
		return fmt.Errorf("recording the certificate: %w", err)
	}
	r.late.WithLabelValues(answered.Kind()).Inc()
	if !served.IsMissing(err) && r.Events != nil { // Start reports a missing kind
		r.Events.Eventf(request, nil, corev1.EventTypeWarning, outcome.ReasonNotRecorded, "Record", "%s",
			eventtext.Fit("The certificate was issued before it could be recorded in the inventory; it is recorded later: "+err.Error()))
	}
	return nil
}

// RecordOwn is a pki.Recorder for certificates that no request has.
func (r *Recorder) RecordOwn(ctx context.Context, cert *x509.Certificate, why pki.Purpose) error {
	if !r.admit(ctx, why.Kind) {
		return nil
	}
	record := inventory.OwnRecord(cert, why, metav1.NewTime(r.Now().UTC().Truncate(time.Second)))
	if err := r.write(ctx, record); err != nil {
		r.late.WithLabelValues(why.Kind).Inc()
		log.FromContext(ctx).WithName(name).Error(err, "Cannot record a certificate of this program now; trying again", "use", why.Use, "serial", cert.SerialNumber.Text(16))
		go r.packs.Write(context.WithoutCancel(ctx), record) //nolint:errcheck // it tries until that succeeds
	}
	return nil
}

// write records a certificate within the time that it waits for that.
func (r *Recorder) write(ctx context.Context, record *inventory.Record) error {
	wait := patience
	if since := r.packs.Failing(); !r.Settings.Required && !since.IsZero() {
		wait = max(wait-r.Now().Sub(since), leastPatience)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return r.packs.Write(ctx, record)
}

// admit reports whether there is space for the record of a certificate.
func (r *Recorder) admit(ctx context.Context, kind string) bool {
	used := r.packs.Used()
	if used < nearlyFull || used < 1 && kind != podRequests {
		return true
	}
	r.dropped.WithLabelValues(kind).Inc()
	log.FromContext(ctx).V(1).Info("Not recording a certificate: the inventory is full", "kind", kind)
	if r.Events != nil && r.Full != nil {
		r.Events.Eventf(r.Full, nil, corev1.EventTypeWarning, "InventoryFull", "Record", "Not all certificates are recorded: raise inventory.maxMiB, which is %d", r.Settings.MaxMiB)
	}
	return false
}

// recordOf returns the record of the certificate of a request.
func (r *Recorder) recordOf(answered inventory.Answered, issued metav1.Time) (*inventory.Record, error) {
	votes, required := r.Policies.Votes(answered.Object)
	var approval *inventory.Approval
	switch policy := r.Policies.Recorder().DecidedBy(answered.UID()); {
	case !answered.Approved:
	case policy != nil:
		approval = &inventory.Approval{Approver: r.PolicyApprover, Policies: []inventoryv1alpha1.PolicyFacts{inventoryv1alpha1.PolicyFacts(*policy)}}
	case len(votes) > 0:
		approval = &inventory.Approval{Policies: required}
	}
	if approval != nil {
		approval.Time = answered.ApprovedAt(issued)
	}
	record, err := answered.Record(approval, votes, issued)
	if err == nil && record.Location != nil && record.Location.Kind == cmv1.CertificateKind && record.Request.Requester == r.CertificateUser {
		record.Location.Claimed = false
	}
	return record, err
}

// note remembers that the certificate of a request needs nothing more.
func (r *Recorder) note(requests ...types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, uid := range requests {
		r.recorded[uid] = struct{}{}
		delete(r.due, uid)
	}
}

// Recorded reports whether a request with a certificate may be deleted: the certificate is
// recorded or will never be, as with a nil Recorder.
func (r *Recorder) Recorded(kind string, request types.UID) bool {
	if r == nil || !slices.Contains(r.Settings.Kinds, kind) {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, recorded := r.recorded[request]
	return recorded
}
