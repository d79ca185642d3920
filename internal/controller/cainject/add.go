// Package cainject writes CAs into the objects that name a source for them by an annotation
// of cert-manager's cainjector: webhook configurations, definitions and APIServices.
package cainject

import (
	"context"
	"fmt"
	"sync"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/inprocess"
	"github.com/certplane/certplane/internal/issuing/roots"
	"github.com/certplane/certplane/internal/policy/injection"
	"github.com/certplane/certplane/internal/process/changewatch"
	"github.com/certplane/certplane/internal/process/worker"
)

const name = "cainjector"

// Component is the controller's name in managed fields and Events. It is cert-manager's, so
// that the fields keep one owner when one program replaces the other.
const Component = "cert-manager-" + name

const (
	// firstPause and lastPause bound the wait before a target is tried again.
	firstPause = 5 * time.Second
	lastPause  = 5 * time.Minute
	// lookEvery is the interval at which the controller checks for a changed CA of the API.
	lookEvery = 5 * time.Second
)

// Config is the configuration of the controller.
type Config struct {
	// API is the configuration of the client, for the caches of metadata.
	API *rest.Config
	// Client is the controller's own identity. It must read past caches.
	Client client.Client
	// Versions returns the resources of a version of the API.
	Versions worker.Lookup
	// Secrets and Certificates notify of changes of possible sources.
	Secrets, Certificates *changewatch.Watcher
	// APICAs are the CAs with which this process verifies the API. It can be nil.
	APICAs   roots.Roots
	Settings Settings
	Events   events.EventRecorder
	Clock    clock.PassiveClock
}

type queue = workqueue.TypedRateLimitingInterface[target]

// Add adds the controller to mgr. It works with the kinds that the API has, and looks every
// minute for the others.
func Add(mgr ctrl.Manager, cfg Config) error {
	r := &reconciler{Config: cfg, known: map[target]*state{}}
	err := builder.TypedControllerManagedBy[target](mgr).
		Named(name).
		WatchesRawSource(source.TypedFunc[target](r.watch)).
		WithOptions(controller.TypedOptions[target]{RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[target](firstPause, lastPause)}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("building the controller that injects CAs: %w", err)
	}
	return nil
}

// target identifies an object that gets a CA.
type target struct{ kind, name string }

// String implements fmt.Stringer.
func (t target) String() string { return fmt.Sprintf("%s %s", t.kind, t.name) }

type reconciler struct {
	Config
	mu    sync.Mutex // guards known, and the sources of its states
	known map[target]*state
	said  worker.Said[target, injection.Problem]
}

// watch queues targets when they or their sources change, until ctx ends.
func (r *reconciler) watch(ctx context.Context, q queue) error {
	logger := log.FromContext(ctx).WithName(name)
	ctx = log.IntoContext(ctx, logger)
	// A missing kind is not news: only "certplane serve" lacks one, APIServices.
	quiet := log.IntoContext(ctx, logger.V(1))
	for _, kind := range r.Settings.Targets {
		k := injection.KindNamed(kind)
		go worker.OneVersion(k.GroupVersion(), k.Resource, r.Versions).Follow(quiet, "Injecting CAs into "+k.Resource, func(ctx context.Context, _ string) error {
			return r.watchTargets(ctx, k, q)
		})
	}
	go r.Secrets.Run(ctx, r.wakes(q, func(s *state) types.NamespacedName { return s.secret }))
	if r.Settings.Certificates {
		certificates := worker.OneVersion(cmv1.SchemeGroupVersion, "certificates", r.Versions)
		go certificates.Follow(ctx, "Injecting the CAs of Certificates", func(ctx context.Context, _ string) error {
			r.Certificates.Run(ctx, r.wakes(q, func(s *state) types.NamespacedName { return s.certificate() }))
			return nil
		})
	}
	if r.APICAs != nil {
		go roots.Watch(ctx, r.APICAs, lookEvery, func() {
			r.wake(q, func(s *state) bool { return s.source.Annotation == cmv1.WantInjectAPIServerCAAnnotation })
		})
	}
	return nil
}

// watchTargets queues the targets of a kind that have changed, until ctx ends. It keeps only
// names and annotations in memory.
func (r *reconciler) watchTargets(ctx context.Context, k *injection.Kind, q queue) error {
	objects, err := inprocess.NewCache(r.API, cache.Options{
		Scheme: r.Client.Scheme(), Mapper: r.Client.RESTMapper(), DefaultTransform: onlyAnnotations,
	})
	if err != nil {
		return fmt.Errorf("making the cache of %s: %w", k.Resource, err)
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(k.GroupVersionKind)
	changed := handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, object *metav1.PartialObjectMetadata) []target {
		if len(object.Annotations) == 0 {
			return nil
		}
		return []target{{k.Kind, object.Name}}
	})
	if err := source.TypedKind(objects, object, changed).Start(ctx, q); err != nil {
		return fmt.Errorf("watching %s: %w", k.Resource, err)
	}
	return objects.Start(ctx)
}

// onlyAnnotations removes all metadata that the controller does not read.
func onlyAnnotations(object any) (any, error) {
	m, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	kept := metav1.ObjectMeta{Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion}
	for _, name := range injection.Annotations {
		if value, ok := m.Annotations[name]; ok {
			metav1.SetMetaDataAnnotation(&kept, name, value)
		}
	}
	m.ObjectMeta = kept
	return m, nil
}

// wakes returns a listener that queues the targets that use a changed object.
func (r *reconciler) wakes(q queue, uses func(*state) types.NamespacedName) changewatch.Listener {
	return changewatch.Listener{
		Changed: func(changed types.NamespacedName, _ string) {
			r.wake(q, func(s *state) bool { return uses(s) == changed })
		},
		Missed: func() { r.wake(q, func(s *state) bool { return uses(s) != types.NamespacedName{} }) },
	}
}

// wake queues the known targets whose state is concerned.
func (r *reconciler) wake(q queue, concerned func(*state) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for target, state := range r.known {
		if concerned(state) {
			q.Add(target)
		}
	}
}
