package apiserver

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/storage"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requestkind"
	"github.com/certplane/certplane/internal/revocation"
)

// keyStore refuses requests with keys that are known as compromised: that a certificate was
// revoked would mean little if its key could get another one.
type keyStore struct {
	storage.Interface
	revoked *revocation.Index
}

// wrapKeys wraps the stores of requests.
func (r *recording) wrapKeys(resource schema.GroupResource, store storage.Interface) storage.Interface {
	if r.records == nil || requestkind.OfResource(resource) == nil {
		return store
	}
	return keyStore{store, r.records.Revoked()}
}

// Create implements storage.Interface.
func (s keyStore) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	if err := s.check(obj); err != nil {
		return err
	}
	return s.Interface.Create(ctx, key, obj, out, ttl)
}

func (s keyStore) check(obj runtime.Object) error {
	if !s.revoked.HasKeys() {
		return nil // without reading the request
	}
	view, err := viewOf(obj)
	if err != nil {
		return nil //nolint:nilerr // validation has accepted it: it is not for this store to refuse it
	}
	return revokedKey(s.revoked, view)
}

// revokedKey returns an error if a request is for a key that is known as compromised.
func revokedKey(index *revocation.Index, view client.Object) error {
	if !index.HasKeys() {
		return nil // without parsing the request
	}
	of, ok := request.From(view)
	if !ok || of.Key == nil {
		return nil
	}
	revoked, ok := index.Key(of.Key)
	if !ok {
		return nil
	}
	kind := requestkind.Of(view)
	return apierrors.NewInvalid(schema.GroupKind{Group: kind.Resource.Group, Kind: string(kind.Name)}, view.GetName(), field.ErrorList{
		field.Forbidden(field.NewPath("spec"), fmt.Sprintf("the key was revoked as compromised on %s (Revocation %s): make a new key", revoked.Time.Format(time.RFC3339), revoked.By.Name)),
	})
}
