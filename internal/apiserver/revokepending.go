package apiserver

import (
	"cmp"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/apiserver/revoking"
	"github.com/certplane/certplane/internal/inventory"
	"github.com/certplane/certplane/internal/policy/requestkind"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/revocation"
)

const (
	// pendingLooks is how often records are searched for each Revocation with pending requests,
	// with pendingPause between: by then all servers know it, and revoke what they issue.
	pendingLooks = 10
	pendingPause = time.Second
	// clocksDiffer is by how much the clocks of servers may differ.
	clocksDiffer = 5 * time.Second
)

// RevokePending revokes, until ctx ends, certificates of pending requests that were issued while
// the selection of a Revocation was under way, or by a server that did not know it yet. It
// begins with the Revocations of the last day, for which another server may not have done so.
// api reads requests.
func (s *Server) RevokePending(ctx context.Context, api client.Reader) error {
	if s.recording.records == nil {
		return nil
	}
	if err := s.recording.records.AwaitRead(ctx); err != nil {
		return err
	}
	r, looks := &recordingLater{recording: s.recording, api: api}, map[types.UID]int{}
	for {
		known := looks
		looks = map[types.UID]int{}
		for _, act := range revoking.ActsWithPending(r.records.Revoked(), r.clock.Now()) {
			looks[act.UID] = known[act.UID] + 1
			if looks[act.UID] > pendingLooks {
				continue
			}
			if err := r.revokePendingOf(ctx, act); err != nil {
				return err
			}
		}
		if !worker.Sleep(ctx, pendingPause) {
			return ctx.Err()
		}
	}
}

// revokePendingOf revokes the certificates of pending requests for a Revocation.
func (r *recordingLater) revokePendingOf(ctx context.Context, by revocation.PendingAct) error {
	index := r.records.Revoked()
	for _, query := range revoking.PendingQueries(by, by.Time.Add(-clocksDiffer)) {
		var failed error
		err := inventory.Each(ctx, r.records, query, func(record *inventoryv1alpha1.IssuedCertificate) bool {
			act, entry, ok := revoking.PendingOf(index, by, record, r.requested(ctx, record, by.Time), r.clock.Now().UTC().Truncate(time.Second))
			if !ok {
				return true
			}
			if _, known := index.Entry(&entry); known {
				return true
			}
			entries, store := []revocation.Entry{entry}, revokingStore{recording: r.recording}
			if act.Revision, failed = store.write(ctx, act, entries); act.Revision > 0 { // otherwise the watch of the store tells it
				store.inForce(ctx, act, entries)
			}
			return failed == nil
		})
		if err != nil || failed != nil {
			return cmp.Or(failed, err)
		}
	}
	return nil
}

// requested returns when the request of a record was made. The record has the time of the
// approval only, and the request may be deleted: then it counts as made when it was approved.
func (r *recordingLater) requested(ctx context.Context, record *inventoryv1alpha1.IssuedCertificate, before time.Time) time.Time {
	at, of := record.CreationTimestamp.Time, record.Request
	if a := record.Approval; a != nil && a.Time != nil {
		at = a.Time.Time
	}
	if at.Before(before) {
		return at
	}
	for _, kind := range requestkind.All {
		object := kind.New()
		if string(kind.Name) == of.Kind && r.api.Get(ctx, client.ObjectKey{Namespace: of.Namespace, Name: of.Name}, object) == nil && string(object.GetUID()) == of.UID {
			return object.GetCreationTimestamp().Time
		}
	}
	return at
}
