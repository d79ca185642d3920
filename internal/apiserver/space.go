package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/storage"

	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/store/storespace"
	"github.com/certplane/certplane/internal/tenant"
	"github.com/certplane/certplane/internal/tenant/fairshare"
)

// addSpaceCheck makes the server not ready while its store cannot be written,
// if the space of the store is watched.
func addSpaceCheck(server *genericapiserver.GenericAPIServer, space *storespace.Space) error {
	if space == nil {
		return nil
	}
	check := healthz.NamedCheck("store-space", func(*http.Request) error { return space.Check() })
	if err := server.AddReadyzChecks(check); err != nil {
		return fmt.Errorf("adding the check of the store's space: %w", err)
	}
	return nil
}

// spacedStore refuses writes for which the store has no room.
type spacedStore struct {
	storage.Interface
	space *storespace.Space
	// dispensable is true for objects that can be lost.
	dispensable bool
}

func newSpacedStore(resource schema.GroupResource, store storage.Interface, space *storespace.Space) storage.Interface {
	return spacedStore{store, space, resource.Resource == "events"}
}

func (s spacedStore) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	write := s.write(ctx, obj, 0)
	if err := s.space.Allow(ctx, write); err != nil {
		return explainSpace(err)
	}
	if err := s.Interface.Create(ctx, key, obj, out, ttl); err != nil {
		return explainSpace(err)
	}
	s.space.Wrote(write)
	return nil
}

func (s spacedStore) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, cached runtime.Object) error {
	var write storespace.Write
	limited := func(stored runtime.Object, info storage.ResponseMeta) (runtime.Object, *uint64, error) {
		old := int64(0)
		if info.ResourceVersion > 0 {
			old = sizeOf(stored) // now, because tryUpdate may change it
		}
		updated, ttl, err := tryUpdate(stored, info)
		if err != nil {
			return updated, ttl, err
		}
		write = s.write(ctx, updated, old)
		return updated, ttl, s.space.Allow(ctx, write)
	}
	if err := s.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, limited, cached); err != nil {
		return explainSpace(err)
	}
	if write.New > 0 { // otherwise nothing had to be written
		s.space.Wrote(write)
	}
	return nil
}

func (s spacedStore) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, options storage.DeleteOptions) error {
	if err := s.Interface.Delete(ctx, key, out, preconditions, validate, cached, options); err != nil {
		return err
	}
	write := s.write(ctx, out, sizeOf(out))
	write.New = 0
	s.space.Wrote(write)
	return nil
}

func (s spacedStore) write(ctx context.Context, object runtime.Object, old int64) storespace.Write {
	owner := tenant.OfObject(object)
	w := storespace.Write{Owner: owner, Privileged: isPrivileged(ctx, owner), Dispensable: s.dispensable, Old: old, New: sizeOf(object)}
	if with, ok := ctx.Value(writesKey{}).(*writesOf); ok {
		w.New += with.size()
		w.Denial = with.denial && old > 0
		w.Revocation = with.revocation && sizeOf(object) <= mostUrgent
	}
	if o, err := meta.Accessor(object); err == nil {
		w.Deleting = o.GetDeletionTimestamp() != nil
	}
	w.Administrator = w.Privileged && !isInside(ctx)
	return w
}

// mostUrgent is the size in bytes of the largest Revocation that a full store takes.
const mostUrgent = 16 << 10

// isPrivileged reports whether a write for owner is exempt from the limits of space:
// administrators write, or the server writes its own objects. Writes that its controllers
// and its ACME server make for a tenant count as the tenant's.
func isPrivileged(ctx context.Context, owner fairshare.Tenant) bool {
	if tenantOf(ctx) != tenant.Exempt {
		return false
	}
	if !isInside(ctx) || owner == (fairshare.Tenant{}) || owner == tenant.Exempt || isServerNamespace[owner] {
		return true
	}
	who, known := apirequest.UserFrom(ctx)
	if !known {
		return false
	}
	_, account, err := serviceaccount.SplitUsername(who.GetName())
	return err != nil && slices.Contains(who.GetGroups(), user.SystemPrivilegedGroup) || account == rights.Publish.Account
}

// isServerNamespace has the tenants of namespaces in which only the server and its
// administrators write.
var isServerNamespace = map[fairshare.Tenant]bool{
	tenant.OfNamespace(metav1.NamespaceSystem): true, tenant.OfNamespace(metav1.NamespacePublic): true,
}

// room returns an error if there would be no room for a request and an answer to it. It
// is for the time before the answer is made.
func room(ctx context.Context, space *storespace.Space, request runtime.Object) error {
	if space == nil {
		return nil
	}
	owner := tenant.OfObject(request)
	err := space.Allow(ctx, storespace.Write{Owner: owner, Privileged: isPrivileged(ctx, owner), New: 2*sizeOf(request) + answerSize})
	return explainSpace(err)
}

// answerSize is an estimate of the size of an answer and its record, in addition to the
// parts that they share with the request.
const answerSize = 4 << 10

// sizeOf returns the approximate size in bytes of an object in the store.
func sizeOf(object runtime.Object) int64 {
	switch o := object.(type) {
	case interface{ Size() int }:
		return int64(o.Size())
	case *unstructured.Unstructured:
		return sizeOfJSON(o.Object)
	}
	return 0
}

func sizeOfJSON(value any) int64 {
	size := int64(2) // brackets or quotes
	switch value := value.(type) {
	case string:
		size += int64(len(value))
	case map[string]any:
		for name, item := range value {
			size += int64(len(name)) + 4 + sizeOfJSON(item)
		}
	case []any:
		for _, item := range value {
			size += 1 + sizeOfJSON(item)
		}
	}
	return size
}

// explainSpace converts the errors of a full store into API errors for clients.
func explainSpace(err error) error {
	var refusal *storespace.Refusal
	if errors.As(err, &refusal) && refusal.Again {
		return apierrors.NewTooManyRequests("the store is almost full, and large objects are written repeatedly: their former versions must be removed first; try again later", retrySeconds)
	}
	if refusal != nil {
		return noSpace{refusal, refusalText(refusal)}
	}
	if errors.Is(err, rpctypes.ErrNoSpace) || errors.Is(err, rpctypes.ErrGRPCNoSpace) {
		return noSpace{err, "the store is full, and etcd refuses to write; delete objects that are not needed, or ask an administrator to do so"}
	}
	return err
}

func refusalText(r *storespace.Refusal) string {
	const mib = 1 << 20
	switch {
	case r.Tenant != nil && r.Tenant.Name == "" && r.Tenant.Class == tenant.ClassNode:
		return fmt.Sprintf("the store is more than half full, and all nodes together have %d MiB of it, more than their share of %d MiB: delete Nodes, requests of nodes, and bootstrap tokens that are not needed, or raise etcd.quotaMiB",
			r.InUse/mib, r.Most/mib)
	case r.Tenant != nil:
		return fmt.Sprintf("the store is more than half full, and %s has %d MiB of it, more than its share of %d MiB (etcd.maxPercentPerTenant): delete objects that are not needed",
			tenant.DescribeOwner(*r.Tenant), r.InUse/mib, r.Most/mib)
	case r.FileIsFull:
		return fmt.Sprintf("the store is full: the database file of etcd has %d MiB of %d MiB, although only %d MiB are in use; an administrator has to defragment it",
			r.File/mib, r.FileMost/mib, r.InUse/mib)
	}
	return fmt.Sprintf("the store is full: %d MiB are in use of %d MiB (etcd.quotaMiB); objects can be deleted, which makes room after some seconds",
		r.InUse/mib, r.Most/mib)
}

// noSpace is an error with an API status for clients.
type noSpace struct {
	error
	text string
}

// Unwrap is for errors.As.
func (n noSpace) Unwrap() error { return n.error }

// Status implements errors.APIStatus.
func (n noSpace) Status() metav1.Status {
	return metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusInsufficientStorage,
		Reason:  "InsufficientStorage",
		Message: n.text,
	}
}
