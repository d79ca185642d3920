// Package bundles writes the certificates of trust-manager's Bundles into ConfigMaps and
// Secrets.
package bundles

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/api/trustmanager"
	"github.com/certplane/certplane/internal/inprocess"
	"github.com/certplane/certplane/internal/issuing/roots"
	"github.com/certplane/certplane/internal/process/changewatch"
	"github.com/certplane/certplane/internal/process/trusttarget"
	"github.com/certplane/certplane/internal/process/worker"
)

// Component is the name of the controller and the source of its Events, and fieldManager owns
// the fields of targets. Both are trust-manager's, so that fields keep one owner when one
// program replaces the other.
const (
	Component    = "bundles"
	fieldManager = client.FieldOwner("trust-manager")
)

const (
	// concurrency is how many Bundles are processed at the same time.
	concurrency = 4
	// firstPause and lastPause bound the wait before a Bundle is tried again.
	firstPause, lastPause = 5 * time.Second, 5 * time.Minute
	// settleFor is how long changes of targets are collected.
	settleFor = time.Second
)

// Config is the configuration of the controller.
type Config struct {
	// API is the configuration of the client, for the caches.
	API *rest.Config
	// Client is the controller's own identity. It must read past caches.
	Client client.Client
	// Namespaces is a cache that may read namespaces.
	Namespaces cache.Cache
	// Versions returns the resources of a version of the API.
	Versions worker.Lookup
	// TrustNamespace is the namespace of the sources. ConfigMaps and Secrets notify of
	// changes there.
	TrustNamespace      string
	ConfigMaps, Secrets *changewatch.Watcher
	// Package is the package of default CAs; nil if there is none.
	Package  *roots.Package
	Settings Settings
	Events   events.EventRecorder
	Clock    clock.WithTicker
}

// Add adds the controller to mgr. It works while the API has Bundles.
func Add(mgr ctrl.Manager, cfg Config) error {
	err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		if cfg.Package != nil {
			go cfg.Package.Run(ctx, cfg.Clock)
		}
		kind := worker.OneVersion(trustmanager.GroupVersion, trustmanager.Resource, cfg.Versions)
		return kind.While(ctx, Component, "Writing the targets of Bundles", cfg.work)
	}))
	if err != nil {
		return fmt.Errorf("adding the controller of Bundles: %w", err)
	}
	return nil
}

// reconciler keeps the targets of Bundles.
type reconciler struct {
	Config
	writer trusttarget.Writer
	// objects holds Bundles, and the metadata of the ConfigMaps that are targets. secrets
	// hold that of Secrets, by the entry of Settings.SecretTargets.
	objects cache.Cache
	secrets map[string]cache.Cache
	// encoded are the keystores that are being written, and unseen the writes that the cache may
	// not show yet, both by the name of the Bundle.
	encoded, unseen sync.Map
}

func (r *reconciler) forget(bundle string) {
	r.encoded.Delete(bundle)
	r.unseen.Delete(bundle)
}

// work runs the controller until ctx ends.
func (c Config) work(ctx context.Context, _ string) (err error) {
	r := &reconciler{Config: c, writer: trusttarget.Writer{Client: c.Client, Manager: fieldManager}, secrets: map[string]cache.Cache{}}
	if r.objects, err = r.newCache(AllSecretTargets); err != nil {
		return err
	}
	target := wakeLater()
	parts, watches := []worker.Part{r.objects}, []source.Source{
		source.Kind[client.Object](r.objects, &trustmanager.Bundle{}, &handler.EnqueueRequestForObject{}, predicate.GenerationChangedPredicate{}),
		source.Kind(r.objects, metadataOf(trusttarget.ConfigMap), target),
		source.Kind[client.Object](c.Namespaces, &corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.ofNamespace), predicate.LabelChangedPredicate{}),
		source.Func(r.followSources),
	}
	for _, entry := range c.Settings.SecretTargets {
		if r.secrets[entry], err = r.newCache(entry); err != nil {
			return err
		}
		parts = append(parts, r.secrets[entry])
		watches = append(watches, source.Kind(r.secrets[entry], metadataOf(trusttarget.Secret), target))
	}
	working, err := worker.New(ctx, Component, r, worker.Options{Concurrency: concurrency, FirstPause: firstPause, LastPause: lastPause}, watches...)
	if err != nil {
		return err
	}
	return worker.Run(ctx, append(parts, working)...)
}

func metadataOf(kind string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return object
}

// newCache returns a cache of Bundles and of targets, for an entry of Settings.SecretTargets.
func (r *reconciler) newCache(entry string) (cache.Cache, error) {
	isTarget, err := labels.NewRequirement(trustmanager.BundleLabel, selection.Exists, nil)
	if err != nil {
		return nil, err
	}
	targets := cache.ByObject{Label: labels.NewSelector().Add(*isTarget), Transform: onlyState, Namespaces: map[string]cache.Config{}}
	if entry != AllSecretTargets {
		targets.Field = fields.OneTermEqualSelector("metadata.name", entry)
	}
	for _, namespace := range r.Settings.TargetNamespaces {
		targets.Namespaces[namespace] = cache.Config{}
	}
	return inprocess.NewCache(r.API, cache.Options{
		Scheme: r.Client.Scheme(), Mapper: r.Client.RESTMapper(), DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{metadataOf(trusttarget.ConfigMap): targets, metadataOf(trusttarget.Secret): targets},
	})
}

// keysAnnotation holds, in caches only, the keys of a target that the field manager owns.
const keysAnnotation = "certplane.dev/keys"

// onlyState keeps the metadata of a target that show if it is up to date, because there
// can be thousands. The cache calls it twice for the objects of a list that the API streams.
func onlyState(object any) (any, error) {
	m, ok := object.(*metav1.PartialObjectMetadata)
	if !ok || len(m.ManagedFields) == 0 && m.Annotations[keysAnnotation] != "" {
		return object, nil
	}
	keys, err := trusttarget.Keys(m, fieldManager)
	if err != nil {
		keys = []string{"?"} // then it is written
	}
	kept := metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, DeletionTimestamp: m.DeletionTimestamp,
		Labels:      map[string]string{trustmanager.BundleLabel: m.Labels[trustmanager.BundleLabel]},
		Annotations: map[string]string{trustmanager.HashAnnotation: m.Annotations[trustmanager.HashAnnotation], keysAnnotation: strings.Join(keys, ",")},
	}
	if owner := metav1.GetControllerOfNoCopy(m); owner != nil {
		kept.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	m.ObjectMeta = kept
	return m, nil
}

func requestFor(bundle string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: bundle}}
}

// wakeLater queues the Bundle of a changed target after settleFor. Most changes are its own
// writes, and the cache must show all of them, or the next pass would write some again.
func wakeLater() handler.TypedEventHandler[*metav1.PartialObjectMetadata, reconcile.Request] {
	wake := func(queue worker.Queue, targets ...*metav1.PartialObjectMetadata) {
		for _, target := range targets {
			queue.AddAfter(requestFor(target.Labels[trustmanager.BundleLabel]), settleFor)
		}
	}
	return handler.TypedFuncs[*metav1.PartialObjectMetadata, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*metav1.PartialObjectMetadata], queue worker.Queue) {
			wake(queue, e.Object)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*metav1.PartialObjectMetadata], queue worker.Queue) {
			wake(queue, e.ObjectOld, e.ObjectNew)
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*metav1.PartialObjectMetadata], queue worker.Queue) {
			wake(queue, e.Object)
		},
	}
}

// ofNamespace returns the Bundles that select a namespace.
func (r *reconciler) ofNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	return r.bundles(ctx, func(b *trustmanager.Bundle) bool {
		selector, err := selectorOf(b)
		return err == nil && selector.Matches(labels.Set(namespace.GetLabels()))
	})
}

// followSources queues Bundles when their sources change, until ctx ends.
func (r *reconciler) followSources(ctx context.Context, queue worker.Queue) error {
	wake := func(uses func(trustmanager.BundleSource) bool) {
		for _, request := range r.bundles(ctx, func(b *trustmanager.Bundle) bool { return slices.ContainsFunc(b.Spec.Sources, uses) }) {
			queue.Add(request)
		}
	}
	follow := func(watcher *changewatch.Watcher, of func(trustmanager.BundleSource) *trustmanager.ObjectKeys) {
		watcher.Run(ctx, changewatch.Listener{
			// What a selector selected before is not known, so each change concerns it.
			Changed: func(changed types.NamespacedName, _ string) {
				wake(func(s trustmanager.BundleSource) bool {
					return of(s) != nil && (of(s).Name == "" || of(s).Name == changed.Name)
				})
			},
			Missed: func() { wake(func(s trustmanager.BundleSource) bool { return of(s) != nil }) },
		})
	}
	go func() {
		r.objects.WaitForCacheSync(ctx)
		if r.Package != nil {
			worker.OnChange(ctx, r.Package.Changed.Subscribe, func() {
				wake(func(s trustmanager.BundleSource) bool { return s.UseDefaultCAs != nil })
			})
		}
		go follow(r.ConfigMaps, func(s trustmanager.BundleSource) *trustmanager.ObjectKeys { return s.ConfigMap })
		follow(r.Secrets, func(s trustmanager.BundleSource) *trustmanager.ObjectKeys { return s.Secret })
	}()
	return nil
}

// bundles returns the Bundles for which concerned is true.
func (r *reconciler) bundles(ctx context.Context, concerned func(*trustmanager.Bundle) bool) (requests []reconcile.Request) {
	list := &trustmanager.BundleList{}
	if err := r.objects.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		worker.CannotWake(ctx, err, "Cannot find the Bundles that a change concerns")
	}
	for i := range list.Items {
		if concerned(&list.Items[i]) {
			requests = append(requests, requestFor(list.Items[i].Name))
		}
	}
	return requests
}

// selectorOf returns the selector of the namespaces of a Bundle.
func selectorOf(b *trustmanager.Bundle) (labels.Selector, error) {
	if b.Spec.Target.NamespaceSelector == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(b.Spec.Target.NamespaceSelector)
}
