package stored

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/keyuse"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requestkind"
	"github.com/certplane/certplane/internal/process/worker"
)

// decode reads an object. Its version can be another one with the same fields.
func decode(k *requestkind.Kind, loose *unstructured.Unstructured) (client.Object, error) {
	object := k.New()
	return object, runtime.DefaultUnstructuredConverter.FromUnstructured(loose.Object, object)
}

// Load reads a stored request. It returns nil if no request has the UID.
func Load(ctx context.Context, api dynamic.Interface, r v1alpha1.StoredRequest) (client.Object, error) {
	k := requestkind.Named(r.Kind)
	if k == nil {
		return nil, nil
	}
	resource := k.Resource.WithVersion(k.Versions[0])
	loose, err := api.Resource(resource).Namespace(r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
	if gone, err := missing(r, loose, err); gone || err != nil {
		return nil, err
	}
	return decode(k, loose)
}

// Get is Load for another client.
func Get(ctx context.Context, api client.Reader, r v1alpha1.StoredRequest) (client.Object, error) {
	k := requestkind.Named(r.Kind)
	if k == nil {
		return nil, nil
	}
	object := k.New()
	err := api.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Name}, object)
	if gone, err := missing(r, object, err); gone || err != nil {
		return nil, err
	}
	return object, nil
}

// missing reports whether the request with the UID no longer exists, according to the
// API's answer.
func missing(r v1alpha1.StoredRequest, object client.Object, err error) (bool, error) {
	switch {
	case apierrors.IsNotFound(err) || err == nil && string(object.GetUID()) != r.UID:
		return true, nil
	case err != nil:
		return false, fmt.Errorf("reading the %s %s: %w", r.Kind, r.Name, err)
	}
	return false, nil
}

// Read returns the index of the requests that api has now.
func Read(ctx context.Context, api client.Reader) (*Index, error) {
	x := New()
	for _, k := range requestkind.All {
		list := k.NewList()
		if err := api.List(ctx, list); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("listing %s: %w", k.Resource.Resource, err)
		}
		var all []keyuse.Use
		err := meta.EachListItem(list, func(item runtime.Object) error {
			if r, ok := request.From(item.(client.Object)); ok {
				all = append(all, keyuse.Of(&r))
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", k.Resource.Resource, err)
		}
		x.replace(k.Name, all)
	}
	return x, nil
}

// Follow keeps the index up to date with an API until ctx ends. lookup finds the kinds
// that the API has.
func (x *Index) Follow(ctx context.Context, api dynamic.Interface, lookup worker.Lookup) {
	var running sync.WaitGroup
	defer running.Wait()
	for _, k := range requestkind.All {
		running.Go(func() { x.follow(ctx, api, lookup, k) })
	}
}

func (x *Index) follow(ctx context.Context, api dynamic.Interface, lookup worker.Lookup, k *requestkind.Kind) {
	resource := worker.Resource{Group: k.Resource.Group, Versions: k.Versions, Name: k.Resource.Resource, Lookup: lookup}
	if version, err := resource.Version(ctx); version == "" && err == nil {
		x.replace(k.Name, nil)
	}
	resource.Follow(ctx, "Following the keys of "+k.Resource.Resource, func(ctx context.Context, version string) error {
		of := api.Resource(k.Resource.WithVersion(version))
		source := &toolscache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return of.List(ctx, options)
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return of.Watch(ctx, options)
			},
		}
		toolscache.NewReflectorWithOptions(source, &unstructured.Unstructured{}, &sink{x, k}, toolscache.ReflectorOptions{Name: "keys of " + k.Resource.Resource}).RunWithContext(ctx)
		return nil
	})
}

// sink takes the changes of a kind. It implements toolscache.ReflectorStore.
type sink struct {
	index *Index
	*requestkind.Kind
}

// use returns the index entry of an object; nil if the index already has it and only
// its state may have changed.
func (s *sink) use(object any) *keyuse.Use {
	loose, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	decoded, err := decode(s.Kind, loose)
	if err != nil {
		klog.ErrorS(err, "Cannot read a request, so its key is not known", "kind", s.Name, "namespace", loose.GetNamespace(), "name", loose.GetName())
		return &keyuse.Use{Kind: s.Name, Namespace: loose.GetNamespace(), Name: loose.GetName(), UID: string(loose.GetUID()), Created: loose.GetCreationTimestamp().Time}
	}
	// The content of a request does not change.
	if s.index.state(string(loose.GetUID()), keyuse.StateOf(decoded)) {
		return nil
	}
	r, _ := request.From(decoded)
	return new(keyuse.Of(&r))
}

// Add implements toolscache.ReflectorStore.
func (s *sink) Add(object any) error {
	if u := s.use(object); u != nil {
		s.index.put(*u)
	}
	return nil
}

// Update implements toolscache.ReflectorStore.
func (s *sink) Update(object any) error { return s.Add(object) }

// Delete implements toolscache.ReflectorStore.
func (s *sink) Delete(object any) error {
	if loose, ok := object.(*unstructured.Unstructured); ok {
		s.index.remove(string(loose.GetUID()))
	}
	return nil
}

// Replace implements toolscache.ReflectorStore.
func (s *sink) Replace(objects []any, _ string) error {
	var more []keyuse.Use
	var known []string
	for _, object := range objects {
		if u := s.use(object); u != nil {
			more = append(more, *u)
		} else if loose, ok := object.(*unstructured.Unstructured); ok {
			known = append(known, string(loose.GetUID()))
		}
	}
	s.index.replace(s.Name, more, known...)
	return nil
}

// Resync implements toolscache.ReflectorStore.
func (*sink) Resync() error { return nil }
