package inventory

import (
	"cmp"
	"context"
	"math"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api/inventory"
	"github.com/certplane/certplane/internal/api/served"
)

// Search returns a client that reads IssuedCertificates from the CertificatePacks of a namespace
// if the API does not serve them. now is the present time. It is safe for concurrent use if c is.
func Search(c client.Client, namespace string, now func() time.Time) client.Client {
	return &searcher{Client: c, namespace: namespace, now: now}
}

type searcher struct {
	client.Client
	namespace string
	now       func() time.Time

	mu sync.Mutex // guards packs and loaded
	// packs were loaded last, at the time loaded.
	packs  *Packs
	loaded time.Time
}

// List implements client.Reader. Without a limit, a list may still have several pages.
func (s *searcher) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := s.Client.List(ctx, list, options...)
	records, ok := list.(*inventoryv1alpha1.IssuedCertificateList)
	if !ok || !mayBePacked(err) {
		return err
	}
	o := (&client.ListOptions{}).ApplyOptions(options)
	query := Query{Labels: o.LabelSelector, Limit: cmp.Or(int(o.Limit), math.MaxInt), Continue: o.Continue}
	if o.FieldSelector != nil {
		var invalid error
		if query.Fields, invalid = o.FieldSelector.Transform(inventory.NormalizeField); invalid != nil {
			return apierrors.NewBadRequest(invalid.Error())
		}
	}
	page, packed := s.find(ctx, query)
	if packed != nil {
		return either(err, packed)
	}
	records.Items, records.Continue = page.Items, page.Continue
	return nil
}

// Get implements client.Reader.
func (s *searcher) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := s.Client.Get(ctx, key, object, options...)
	into, ok := object.(*inventoryv1alpha1.IssuedCertificate)
	if !ok || !mayBePacked(err) {
		return err
	}
	page, packed := s.find(ctx, Query{Fields: fields.OneTermEqualSelector(inventory.NameOfRecord, key.Name), Limit: 1})
	switch {
	case packed != nil:
		return either(err, packed)
	case len(page.Items) == 0:
		return apierrors.NewNotFound(schema.GroupResource{Group: inventoryv1alpha1.GroupName, Resource: "issuedcertificates"}, key.Name)
	}
	page.Items[0].DeepCopyInto(into)
	return nil
}

// mayBePacked reports whether an error means that the API has no inventory: API servers refuse
// users without rights before they tell that a kind does not exist.
func mayBePacked(err error) bool { return served.IsMissing(err) || apierrors.IsForbidden(err) }

// either returns the error to show if neither the inventory nor packs can be read.
func either(records, packs error) error {
	if served.IsMissing(records) && !served.IsMissing(packs) {
		return packs
	}
	return records
}

// find returns a page of records. All pages of a search, and searches that follow soon, use the
// same heads of packs.
func (s *searcher) find(ctx context.Context, query Query) (*Page, error) {
	const soon = 10 * time.Second
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.packs == nil || query.Continue == "" && s.now().Sub(s.loaded) > soon {
		packs, err := NewPacks(PacksConfig{Client: s.Client, Namespace: s.namespace, Now: s.now})
		if err == nil {
			err = packs.Load(ctx)
		}
		if err != nil {
			return nil, err
		}
		s.packs, s.loaded = packs, s.now()
	}
	return s.packs.Find(ctx, &query)
}
