package inventory

import (
	"context"
	"fmt"
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

// searchedAgain is how long the heads of packs are kept for other searches.
const searchedAgain = 10 * time.Second

// Search returns a client that reads IssuedCertificates and CertificateDecisions from the
// CertificatePacks of a namespace if the API does not serve them. It is safe for concurrent
// use if c is.
func Search(c client.Client, namespace string) client.Client {
	return &searcher{Client: c, namespace: namespace}
}

type searcher struct {
	client.Client
	namespace string

	mu sync.Mutex // guards store and loaded
	// store is what was loaded last, at the time loaded.
	store  *Packs
	loaded time.Time
}

// List implements client.Reader.
func (s *searcher) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	show := shown(list)
	err := s.Client.List(ctx, list, options...)
	if show == nil || !mayBePacked(err) {
		return err
	}
	o := (&client.ListOptions{}).ApplyOptions(options)
	query := Query{Labels: o.LabelSelector, Limit: int(o.Limit), Continue: o.Continue}
	if o.FieldSelector != nil {
		var invalid error
		if query.Fields, invalid = o.FieldSelector.Transform(inventory.NormalizeField); invalid != nil {
			return apierrors.NewBadRequest(invalid.Error())
		}
	}
	page, packed := s.find(ctx, query, list)
	if packed != nil {
		return either(err, packed)
	}
	show(page)
	return nil
}

// Get implements client.Reader.
func (s *searcher) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := s.Client.Get(ctx, key, object, options...)
	into, ok := object.(*inventoryv1alpha1.IssuedCertificate)
	if !ok || !mayBePacked(err) {
		return err
	}
	page, packed := s.find(ctx, Query{Fields: fields.OneTermEqualSelector(inventory.NameOfRecord, key.Name), Limit: 1}, &inventoryv1alpha1.IssuedCertificateList{})
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

// either returns the error of a search that could read neither the inventory nor packs: the
// one about packs only if nothing but packs is missing.
func either(records, packs error) error {
	if served.IsMissing(records) && !served.IsMissing(packs) {
		return packs
	}
	return records
}

// shown returns a function that puts records into a list; nil if the list is of another kind.
func shown(list client.ObjectList) func(*Page) {
	switch list := list.(type) {
	case *inventoryv1alpha1.IssuedCertificateList:
		return func(page *Page) { list.Items, list.Continue = page.Items, page.Continue }
	case *inventoryv1alpha1.CertificateDecisionList:
		return func(page *Page) {
			list.Items, list.Continue = nil, page.Continue
			for i := range page.Items {
				list.Items = append(list.Items, *inventory.NewDecision(&page.Items[i]))
			}
		}
	}
	return nil
}

// find returns a page of records. Without a limit, it is the only one.
func (s *searcher) find(ctx context.Context, query Query, list client.ObjectList) (*Page, error) {
	if _, ok := list.(*inventoryv1alpha1.CertificateDecisionList); ok {
		query.Of = Decisions
	}
	store, err := s.load(ctx, query.Continue == "")
	if err != nil {
		return nil, err
	}
	if query.Limit > 0 {
		return store.Find(ctx, &query)
	}
	query.Limit = math.MaxInt
	all := &Page{}
	for {
		page, err := store.Find(ctx, &query)
		if err != nil {
			return nil, err
		}
		all.Items = append(all.Items, page.Items...)
		if query.Continue = page.Continue; query.Continue == "" {
			return all, nil
		}
	}
}

// load returns the store for a search. The pages of one search come from the same heads.
func (s *searcher) load(ctx context.Context, first bool) (*Packs, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.store != nil && (!first || now.Sub(s.loaded) < searchedAgain) {
		return s.store, nil
	}
	store, err := NewPacks(PacksConfig{Client: s.Client, Namespace: s.namespace, Now: time.Now})
	if err != nil {
		return nil, err
	}
	if err := store.Load(ctx); err != nil {
		return nil, fmt.Errorf("searching the inventory in the namespace %s: %w", s.namespace, err)
	}
	s.store, s.loaded = store, now
	return store, nil
}
