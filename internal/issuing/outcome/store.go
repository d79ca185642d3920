package outcome

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/inprocess/issueoncreate"
)

// ErrSuperseded reports that a request does not need an outcome any more: it
// was deleted or has another answer.
var ErrSuperseded = errors.New("the request no longer waits")

// errStored reports that another attempt stored the same certificate, and
// reports it.
var errStored = errors.New("another attempt stored the same certificate")

const (
	// MaxConflicts limits the attempts to store one outcome. Each conflict
	// means that another client has changed the request in the meantime.
	MaxConflicts = 10
	// ConflictPause is how long to wait before the next attempt if other
	// clients keep changing the request: the cache is up to date by then.
	ConflictPause = time.Second
	// storeTimeout is how long storing a certificate may take if it arrives
	// while the controller stops.
	storeTimeout = 10 * time.Second
)

// Kind is a kind of requests. T is the type in which its controller reads a request.
type Kind[T client.Object] struct {
	// Read reads a request, past all caches.
	Read func(ctx context.Context, key client.ObjectKey) (T, error)
	// Write stores an outcome in the status of a request, in one write that fails
	// with a conflict if the request has changed since it was read.
	Write func(ctx context.Context, request T, o Outcome) error
	// Shows reports whether the status shows an outcome already.
	Shows func(request T, o Outcome) bool
	// Waits reports whether a request still waits for an outcome.
	Waits func(request T) bool
	// Records, if not nil, records each certificate before it is stored.
	Records *Records
	// OnlyFinal means that the status cannot show that a request waits.
	OnlyFinal bool
}

// ReasonNotRecorded is the reason of a request that waits, and of an Event about one that does not.
const ReasonNotRecorded = "NotRecorded"

// Put stores an outcome on a request, unless the request shows it, and reports
// it. It returns when to reconcile the request again.
func (k Kind[T]) Put(ctx context.Context, request T, o Outcome, r Report) (reconcile.Result, error) {
	if issueoncreate.Is(ctx) && !o.Final() {
		return reconcile.Result{}, nil // it is tried again, and reported, when the request is stored
	}
	if !k.Shows(request, o) {
		signed := r.now()
		if k.Records != nil && o.Issued != nil {
			// As long as a certificate can be stored, it can be recorded.
			if isNew, err := k.Records.put(context.WithoutCancel(ctx), request, o.Issued, signed); err != nil {
				if isNew {
					log.FromContext(ctx).Info("Holding certificate that cannot be recorded", r.facts(o)...)
				}
				return k.await(ctx, request, err, r)
			}
		}
		err := k.store(ctx, request, o)
		if errors.Is(err, errStored) {
			return Again(o)
		}
		r.send(ctx, o, signed, err)
		switch {
		case errors.Is(err, ErrSuperseded):
			return reconcile.Result{}, nil
		case apierrors.IsConflict(err):
			return reconcile.Result{RequeueAfter: ConflictPause}, nil
		case err != nil:
			return reconcile.Result{}, errors.Join(err, o.Retry)
		}
	}
	return Again(o)
}

// await stores that a request waits for the inventory.
func (k Kind[T]) await(ctx context.Context, request T, reason error, r Report) (reconcile.Result, error) {
	o := Outcome{
		State: Waiting, Reason: ReasonNotRecorded, Class: ReasonNotRecorded, Retry: reason,
		Message: "The request waits for the inventory, which cannot be written, because inventory.required is set",
	}
	if !k.OnlyFinal {
		return k.Put(ctx, request, o, r)
	}
	r.Delayed(ctx, o)
	return Again(o)
}

// Again returns when to reconcile a request with an outcome again.
func Again(o Outcome) (reconcile.Result, error) {
	if o.After > 0 {
		return reconcile.Result{RequeueAfter: o.After}, nil
	}
	return reconcile.Result{}, o.Retry
}

// store puts an outcome on a request. The write succeeds only if the request
// has not changed since it was read. So no request gets two certificates,
// however many signers run, and no decision of an approver is lost. A
// certificate costs a signature of the CA and must not be lost because another
// client wrote to the request: on a conflict, the same outcome is written again
// to the current version of the request.
func (k Kind[T]) store(ctx context.Context, request T, o Outcome) error {
	if o.Issued != nil {
		// A certificate is stored even while the controller stops: the CA has
		// signed it, and the next attempt would issue another one.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		defer cancel()
	}
	var err error
	for range MaxConflicts {
		if err = k.Write(ctx, request, o); err == nil {
			return nil
		}
		latest, reason := k.Latest(ctx, request)
		switch {
		case errors.Is(reason, ErrSuperseded):
			return reason
		case reason != nil:
			return fmt.Errorf("reading the request again after %v: %w", err, reason)
		case k.Shows(latest, o) && apierrors.IsConflict(err) && o.Issued != nil && o.Issued.Fetched:
			return errStored
		case k.Shows(latest, o):
			return nil // stored, but the response was lost or late
		case !k.Waits(latest):
			return ErrSuperseded
		case !apierrors.IsConflict(err):
			return fmt.Errorf("writing the status: %w", err)
		}
		request = latest
	}
	return err
}

// Latest returns the current version of a request. It fails with ErrSuperseded
// if the request was deleted, even if another one with the same name exists.
func (k Kind[T]) Latest(ctx context.Context, request T) (T, error) {
	latest, err := k.Read(ctx, client.ObjectKeyFromObject(request))
	switch {
	case apierrors.IsNotFound(err):
		return latest, ErrSuperseded
	case err != nil:
		return latest, err
	case latest.GetUID() != request.GetUID():
		return latest, ErrSuperseded
	}
	return latest, nil
}
