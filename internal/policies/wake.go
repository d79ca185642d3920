package policies

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/process/worker"
)

// factsAgain is the interval of attempts to watch kinds that could not be watched.
const factsAgain = time.Minute

// waker wakes undecided requests when something changes that their decisions have read.
type waker struct {
	source   *source
	index    *factIndex
	objects  cache.Cache
	metadata metadata.Interface
	answers  *answers
}

// follow wakes undecided requests when a fact changes that policies read, until ctx
// ends. It watches only kinds that policies read.
func (w *waker) follow(ctx context.Context) {
	changed, cancel := worker.Changed(w.source.changes.Subscribe)
	defer cancel()
	objects := factObjects()
	var endAccess func() // nil while nothing reads what users may do
	defer func() {
		if endAccess != nil {
			endAccess()
		}
	}()
	for {
		needs := w.allNeeds()
		objects = w.followObjects(ctx, objects, needs)
		switch {
		case needs.access && endAccess == nil:
			endAccess = w.followAccess(ctx)
		case !needs.access && endAccess != nil:
			endAccess()
			endAccess = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-time.After(factsAgain): // the API may have a kind now
		}
	}
}

// kindsRead are the kinds of objects that policies read.
type kindsRead struct{ namespaces, nodes, owners, access bool }

// allNeeds returns the kinds that the policies in force read.
func (w *waker) allNeeds() kindsRead {
	current := w.source.current.Load()
	if current == nil {
		return kindsRead{}
	}
	needs := current.set.AllNeeds()
	read := kindsRead{needs.Namespace, needs.Node, needs.Owner || needs.Origin, len(needs.Access) > 0 || needs.BuiltIn}
	if len(current.requestPolicies) > 0 {
		read.namespaces, read.access = true, true
	}
	return read
}

// factObject is a kind of objects whose changes wake requests.
type factObject struct {
	needed func(kindsRead) bool
	object client.Object
	// fact returns the fact that an object of the kind is to decisions.
	fact func(client.Object) fact
}

func factObjects() []factObject {
	return []factObject{
		{func(n kindsRead) bool { return n.namespaces }, partial(corev1.SchemeGroupVersion.WithKind("Namespace")),
			func(o client.Object) fact { return namespaceFact(o.GetName()) }},
		{func(n kindsRead) bool { return n.nodes }, &corev1.Node{}, func(o client.Object) fact { return nodeFact(o.GetName()) }},
		{func(n kindsRead) bool { return n.owners }, partial(cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateKind)),
			func(o client.Object) fact { return ownerFact(o.GetNamespace(), o.GetName()) }},
	}
}

func partial(kind schema.GroupVersionKind) client.Object {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	return object
}

// followObjects watches the kinds that are needed, and returns the others. A kind that
// the API lacks is not an error: requests that wait for it are decided again after a
// while.
func (w *waker) followObjects(ctx context.Context, kinds []factObject, needs kindsRead) (rest []factObject) {
	for _, kind := range kinds {
		if !kind.needed(needs) || !w.followKind(ctx, kind) {
			rest = append(rest, kind)
		}
	}
	return rest
}

func (w *waker) followKind(ctx context.Context, kind factObject) bool {
	informer, err := w.objects.GetInformer(ctx, kind.object, cache.BlockUntilSynced(false))
	if err == nil {
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) { w.factChanged(kind, o) },
			UpdateFunc: func(old, o any) {
				if !sameFact(old, o) {
					w.factChanged(kind, o)
				}
			},
			DeleteFunc: func(o any) { w.factChanged(kind, o) },
		})
	}
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).V(2).Info("Cannot follow what certificate policies read", "kind", kind.object.GetObjectKind().GroupVersionKind().Kind, "err", err)
	}
	return err == nil
}

func (w *waker) factChanged(kind factObject, o any) {
	if gone, isGone := o.(toolscache.DeletedFinalStateUnknown); isGone {
		o = gone.Obj
	}
	if object, ok := o.(client.Object); ok {
		w.index.changed(kind.fact(object))
	}
}

// sameFact reports whether no field has changed that policies can read: nodes update
// their status all the time.
func sameFact(old, object any) bool {
	before, ok := old.(client.Object)
	after, ok2 := object.(client.Object)
	if !ok || !ok2 || before.GetUID() != after.GetUID() || before.GetGeneration() != after.GetGeneration() ||
		!reflect.DeepEqual(before.GetLabels(), after.GetLabels()) || !reflect.DeepEqual(before.GetAnnotations(), after.GetAnnotations()) {
		return false
	}
	node, isNode := before.(*corev1.Node)
	other, isNode2 := after.(*corev1.Node)
	return !isNode || !isNode2 || node.Spec.ProviderID == other.Spec.ProviderID && reflect.DeepEqual(node.Status.Addresses, other.Status.Addresses)
}

// accessKinds are the objects that grant rights to users.
var accessKinds = []string{"roles", "rolebindings", "clusterroles", "clusterrolebindings"}

// accessPauses are the delays until requests are woken, and woken once more, after a
// change of rights: authorizers take a moment to apply it.
var accessPauses = []time.Duration{300 * time.Millisecond, keepNo + time.Second}

// followAccess wakes requests when roles and their bindings change, until the function
// that it returns is called. If roles cannot be read, requests are decided again only
// after a while.
func (w *waker) followAccess(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	changed := make(chan struct{}, 1)
	tell := func() {
		w.answers.forget()
		select {
		case changed <- struct{}{}:
		default: // one is queued already
		}
	}
	var synced []toolscache.InformerSynced
	for _, resource := range accessKinds {
		informer, err := w.accessInformer(resource, tell)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Cannot follow what users may do; requests are decided again after a while", "resource", resource)
			continue
		}
		synced = append(synced, informer.HasSynced)
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	running.Go(func() {
		// Rights that changed after a decision, but before the first lists, are no later change.
		if toolscache.WaitForCacheSync(ctx.Done(), synced...) {
			tell()
		}
	})
	running.Go(func() { w.wakeWithAccess(ctx, changed) })
	return func() {
		cancel()
		running.Wait()
	}
}

// accessInformer returns an informer that calls tell after changes of a kind of roles
// or bindings.
func (w *waker) accessInformer(resource string, tell func()) (toolscache.SharedIndexInformer, error) {
	informer := metadatainformer.NewFilteredMetadataInformer(w.metadata, rbacv1.SchemeGroupVersion.WithResource(resource), metav1.NamespaceAll, 0, toolscache.Indexers{}, nil).Informer()
	_, err := informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(_ any, initially bool) {
			if !initially {
				tell()
			}
		},
		UpdateFunc: func(old, o any) {
			before, ok := old.(metav1.Object)
			if after, ok2 := o.(metav1.Object); !ok || !ok2 || before.GetResourceVersion() != after.GetResourceVersion() {
				tell()
			}
		},
		DeleteFunc: func(any) { tell() },
	})
	return informer, errors.Join(err, informer.SetTransform(stripMetadata), informer.SetWatchErrorHandlerWithContext(accessError))
}

// stripMetadata removes all fields but those that show changes.
func stripMetadata(o any) (any, error) {
	full, ok := o.(*metav1.PartialObjectMetadata)
	if !ok {
		return o, nil
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: full.Namespace, Name: full.Name, UID: full.UID, ResourceVersion: full.ResourceVersion,
	}}, nil
}

// accessError handles errors of reading roles. Missing rights to read them are
// expected.
func accessError(ctx context.Context, r *toolscache.Reflector, err error) {
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		klog.FromContext(ctx).V(2).Info("Roles cannot be followed; what certificate policies ask about users is asked again after a while", "err", err)
		return
	}
	toolscache.DefaultWatchErrorHandler(ctx, r, err)
}

// wakeWithAccess wakes requests after changes of rights, until ctx ends.
func (w *waker) wakeWithAccess(ctx context.Context, changed <-chan struct{}) {
	var after <-chan time.Time
	var pauses []time.Duration
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			if len(pauses) == len(accessPauses) {
				continue // they are about to be woken
			}
			pauses = accessPauses
		case <-after:
			pauses = pauses[1:]
			w.index.changed(accessFact)
		}
		after = nil
		if len(pauses) > 0 {
			after = time.After(pauses[0])
		}
	}
}
