package inventory

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/revocation"
)

// revocationNote is the stored revocation of a certificate. It is stored next to the
// certificate's record, which may be in a pack.
type revocationNote struct {
	// Metadata names the payer, as in records.
	Metadata metav1.ObjectMeta                 `json:"metadata"`
	Facts    inventoryv1alpha1.RevocationFacts `json:"revocation"`
	NotAfter metav1.Time                       `json:"notAfter"`
}

// Revoke returns the write that notes the revocation of a certificate, by its fingerprint and
// its end. payer is as in Charge.
func (i *Inventory) Revoke(fingerprint string, notAfter time.Time, facts inventoryv1alpha1.RevocationFacts, payer string) (clientv3.Op, error) {
	if len(fingerprint) < nameLength {
		return clientv3.Op{}, fmt.Errorf("recording a revocation: %q is not a fingerprint", fingerprint)
	}
	paid := &inventoryv1alpha1.IssuedCertificate{}
	Charge(paid, payer)
	data, err := json.Marshal(revocationNote{
		Metadata: metav1.ObjectMeta{Annotations: paid.Annotations}, Facts: facts, NotAfter: metav1.NewTime(notAfter),
	})
	if err != nil {
		return clientv3.Op{}, fmt.Errorf("encoding a revocation: %w", err)
	}
	return clientv3.OpPut(i.revoked+fingerprint[:nameLength], string(data)), nil
}

// revocationNotes are those that are recorded, by the name of the certificate's record.
type revocationNotes map[string]revocationNote

// apply takes a change of a revocation into account.
func (n revocationNotes) apply(kind mvccpb.Event_EventType, name string, kv *mvccpb.KeyValue) error {
	if kind == mvccpb.DELETE {
		delete(n, name)
		return nil
	}
	var r revocationNote
	if err := json.Unmarshal(kv.Value, &r); err != nil {
		return fmt.Errorf("reading %s: %w", kv.Key, err)
	}
	n[name] = r
	return nil
}

// revokedDays returns the days on which revoked certificates end.
func (i *Inventory) revokedDays() map[int64]bool {
	days := map[int64]bool{}
	ends, _, _ := i.index.EndsSince(0)
	for end := range ends {
		days[dayOf(time.Unix(end, 0))] = true
	}
	i.mu.RLock()
	defer i.mu.RUnlock()
	for _, note := range i.revocations {
		days[dayOf(note.NotAfter.Time)] = true
	}
	return days
}

// RevocationOf returns the revocation of a record's certificate; nil if it is not revoked.
func (i *Inventory) RevocationOf(record string) *inventoryv1alpha1.RevocationFacts {
	if digest, ok := revocation.ParseDigest(record); ok {
		if r, ok := i.index.Fingerprint(digest); ok {
			return &inventoryv1alpha1.RevocationFacts{Time: metav1.NewTime(r.Time), Reason: r.Reason.String(), By: r.By.User, Name: r.By.Name}
		}
	}
	i.mu.RLock()
	defer i.mu.RUnlock()
	if note, ok := i.revocations[record]; ok {
		return note.Facts.DeepCopy()
	}
	return nil
}

// cleanRevocations removes those of certificates that have ended before a day.
func cleanRevocations(ctx context.Context, i *Inventory, before int64) error {
	i.mu.RLock()
	var ended []string
	for name, r := range i.revocations {
		if dayOf(r.NotAfter.Time) < before {
			ended = append(ended, name)
		}
	}
	i.mu.RUnlock()
	for _, name := range ended {
		if _, err := i.Store.Delete(ctx, i.revoked+name); err != nil {
			return fmt.Errorf("deleting the revocations of ended certificates: %w", err)
		}
	}
	return nil
}
