package apiserver

import (
	"context"
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/apiserver/extension/lean"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/tenant"
)

// revocable is the resource through which clients revoke certificates.
var revocable = v1alpha1.GroupVersion.WithResource("acmeorders").GroupResource()

// revocationStore makes the inventory record the revocations in the objects that it stores.
type revocationStore struct {
	storage.Interface
	*recording
}

// GuaranteedUpdate implements storage.Interface.
func (s revocationStore) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, cached runtime.Object) error {
	ctx, writes := withWrites(ctx)
	recorded := func(stored runtime.Object, info storage.ResponseMeta) (runtime.Object, *uint64, error) {
		*writes = writesOf{}
		before := revocationIn(stored)
		updated, ttl, err := tryUpdate(stored, info)
		if err != nil {
			return updated, ttl, err
		}
		after := revocationIn(updated)
		if after == nil || before != nil && *before.Revoked == *after.Revoked {
			return updated, ttl, nil
		}
		return updated, ttl, s.record(ctx, writes, after, updated)
	}
	if err := s.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, recorded, cached); err != nil {
		return err
	}
	s.wrote(writes)
	return nil
}

// record adds to writes that a certificate is revoked.
func (s revocationStore) record(ctx context.Context, writes *writesOf, of *v1alpha1.AcmeCertificate, order runtime.Object) error {
	owner := tenant.OfObject(order)
	facts := inventoryv1alpha1.RevocationFacts{Time: of.Revoked.Time, Reason: acmeorder.ReasonText(of.Revoked.Reason), By: of.Revoked.By}
	op, err := s.records.Revoke(of.Digest, of.NotAfter.Time, facts, tenant.Text(owner))
	if err != nil {
		return err
	}
	writes.ops = append(writes.ops, op)
	if s.together {
		return nil
	}
	return s.commit(ctx, writes, owner)
}

// revocationIn returns the revoked certificate of an order, nil if there is none.
func revocationIn(order runtime.Object) *v1alpha1.AcmeCertificate {
	object, ok := order.(*lean.Object)
	if !ok || !strings.Contains(string(object.Status), `"revoked"`) {
		return nil
	}
	var status v1alpha1.AcmeOrderStatus
	if json.Unmarshal([]byte(object.Status), &status) != nil || status.Certificate == nil || status.Certificate.Revoked == nil {
		return nil
	}
	return status.Certificate
}
