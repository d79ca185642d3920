package inventory

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api/inventory"
)

const (
	// unrenewedDays is within how many days certificates end that are looked at.
	unrenewedDays = 7
	// maxUnrenewed is the maximum number of certificates counted. Each takes about 80 bytes
	// during the count.
	maxUnrenewed = 250_000
	// unrenewedEvery is how often they are counted. All records are read for that, with pauses
	// between the packs: 200,000 take half a minute. They are counted after a hundred times
	// that again.
	unrenewedEvery = 10 * time.Minute
	unrenewedPause = 10 * time.Millisecond
	unrenewedShare = 100
)

// identity is a digest of the properties that a renewed certificate shares with the one
// before.
type identity [16]byte

func identityOf(record *inventoryv1alpha1.IssuedCertificate) identity {
	digest := sha256.Sum256([]byte(inventory.Identity(record)))
	return identity(digest[:len(identity{})])
}

// ending is a certificate that ends soon.
type ending struct {
	notAfter time.Time
	kind     string // of its request
}

// keepUnrenewed counts the certificates that are not renewed, again and again, until ctx ends.
func (x *Index) keepUnrenewed(ctx context.Context) {
	logger := log.FromContext(ctx).WithName("inventory")
	for ctx.Err() == nil {
		began := x.now()
		if err := x.countUnrenewed(ctx); err != nil && ctx.Err() == nil {
			logger.Error(err, "Counting the certificates that are not renewed failed, trying again later")
		}
		pause(ctx, max(unrenewedEvery, unrenewedShare*x.now().Sub(began)))
	}
}

// countUnrenewed sets the metric of certificates that end soon, and have no newer one of the
// same signer, subject and names.
func (x *Index) countUnrenewed(ctx context.Context) error {
	if err := x.awaitRead(ctx); err != nil {
		return err
	}
	now := x.now()
	today := dayOf(now)
	soon := map[identity]ending{}
	err := x.visit(ctx, today, today+unrenewedDays, func(record *inventoryv1alpha1.IssuedCertificate) {
		if !inventory.ExpectsRenewal(record) || !inventory.IsLate(record, now) {
			return
		}
		id := identityOf(record)
		if known, ok := soon[id]; ok && !record.Certificate.NotAfter.After(known.notAfter) || !ok && len(soon) == maxUnrenewed {
			return
		}
		soon[id] = ending{record.Certificate.NotAfter.Time, record.Request.Kind}
	})
	if err != nil {
		return err
	}
	if len(soon) > 0 {
		err = x.visit(ctx, today, 1<<62, func(record *inventoryv1alpha1.IssuedCertificate) {
			id := identityOf(record)
			if old, ok := soon[id]; ok && record.Certificate.NotAfter.After(old.notAfter) {
				delete(soon, id)
			}
		})
		if err != nil {
			return err
		}
	}
	x.metrics.showUnrenewed(soon, now)
	return nil
}

// visit calls found for all records of certificates that end within a range of days, without
// a limit and with pauses, so it does not suit callers that wait for an answer. It may call
// found twice for a record that is packed at the same time.
func (x *Index) visit(ctx context.Context, from, to int64, found func(*inventoryv1alpha1.IssuedCertificate)) error {
	for _, number := range x.daysBetween(from, to) {
		packs, outside := x.on(number)
		for _, f := range outside {
			found(f.record)
		}
		for _, info := range packs {
			if err := x.visitPack(ctx, info, found); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *Index) visitPack(ctx context.Context, info *packInfo, found func(*inventoryv1alpha1.IssuedCertificate)) error {
	pause(ctx, unrenewedPause)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("reading a pack of the inventory: %w", err)
	}
	p, err := x.readPack(ctx, info)
	if err != nil {
		return err
	}
	for _, data := range p.records {
		record, err := decodeRecord(data)
		if err != nil {
			return err
		}
		found(record)
	}
	return nil
}
