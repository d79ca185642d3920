// Package trustbundles keeps the targets of TrustBundles: objects with the roots of several
// sources.
package trustbundles

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/inprocess"
	"github.com/certplane/certplane/internal/issuing/roots"
	"github.com/certplane/certplane/internal/process/changewatch"
	"github.com/certplane/certplane/internal/process/trusttarget"
	"github.com/certplane/certplane/internal/process/worker"
)

// Component is the controller's name in managed fields and Events.
const name, Component = "trustbundles", "certplane-trustbundles"

const (
	// firstPause and lastPause bound the wait before a TrustBundle is tried again.
	firstPause, lastPause = 5 * time.Second, 5 * time.Minute
	// collectFor is how long changes of sources and targets are collected, and writeRate the
	// maximum number of writes of targets per second in this process.
	collectFor, writeRate = time.Second, 100
)

// Config is the configuration of the controller.
type Config struct {
	// API is the configuration with which changes are watched.
	API *rest.Config
	// Client is the controller's own identity. It must read past caches.
	Client client.Client
	// Versions returns the resources of a version of the API.
	Versions worker.Lookup
	// ClusterResources is the namespace of the Secrets of ClusterIssuers.
	ClusterResources string
	// DefaultCAs are the CAs of the source defaultCAs; nil if there are none.
	DefaultCAs *roots.Package
	// Admitted means that admission checks which users write TrustBundles whose target is a
	// ClusterTrustBundle.
	Admitted bool
	Settings Settings
	Events   events.EventRecorder
	Clock    clock.WithTicker
}

// Settings is the stanza "trustBundles".
type Settings struct {
	// secretTargets lets TrustBundles write Secrets. With it, "certplane manifests" prints
	// the right to write all Secrets. Default: true in "certplane serve", false in
	// "certplane controllers".
	SecretTargets bool `json:"secretTargets"`
	// perNamespace is how many TrustBundles of a namespace have targets, the oldest ones: from
	// 1 to 1000. Default: 50.
	PerNamespace int `json:"perNamespace"`
}

// DefaultSettings returns the defaults.
func DefaultSettings() Settings { return Settings{PerNamespace: 50} }

// Validate returns an error for the first invalid value, with the name of its field.
func (s Settings) Validate() error {
	if s.PerNamespace < 1 || s.PerNamespace > 1000 {
		return fmt.Errorf("trustBundles.perNamespace: %d is out of range: must be from 1 to 1000", s.PerNamespace)
	}
	return nil
}

// Add adds the controller to mgr. It works while the API has TrustBundles.
func Add(mgr ctrl.Manager, cfg Config) error { return mgr.Add(newReconciler(cfg)) }

func newReconciler(cfg Config) *reconciler {
	return &reconciler{Config: cfg, limit: flowcontrol.NewTokenBucketRateLimiter(writeRate, writeRate), uses: map[use]bool{}}
}

type reconciler struct {
	Config
	limit flowcontrol.RateLimiter
	// bundles has the metadata of all TrustBundles.
	bundles client.Reader
	queue   worker.Queue

	mu   sync.Mutex // guards uses
	uses map[use]bool
}

// Start implements manager.Runnable.
func (r *reconciler) Start(ctx context.Context) error {
	return worker.OneVersion(v1alpha1.GroupVersion, name, r.Versions).While(ctx, name, "Keeping TrustBundles", r.work)
}

func (r *reconciler) work(ctx context.Context, _ string) error {
	bundles, err := inprocess.NewCache(r.API, cache.Options{
		Scheme: r.Client.Scheme(), Mapper: r.Client.RESTMapper(), DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err != nil {
		return fmt.Errorf("making the cache of TrustBundles: %w", err)
	}
	r.bundles = bundles
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(trustBundle))
	own := source.Kind[client.Object](bundles, object, &handler.EnqueueRequestForObject{},
		predicate.GenerationChangedPredicate{})
	working, err := worker.New(ctx, name, r, worker.Options{Concurrency: 10, FirstPause: firstPause, LastPause: lastPause, Timeout: time.Minute},
		own, source.Func(r.follow))
	if err != nil {
		return err
	}
	return worker.Run(ctx, bundles, working)
}

// The kinds of objects that TrustBundles use. signer stands for all ClusterTrustBundles of one, and
// defaultCAs for the package of default CAs.
const (
	configMap, secret, clusterTrustBundle, trustBundle = trusttarget.ConfigMap, trusttarget.Secret, "ClusterTrustBundle", "TrustBundle"
	signer, defaultCAs                                 = "signer", "defaultCAs"
)

// use is the use of an object by a TrustBundle. Without a name, it stands for all objects of the
// kind in the namespace.
type use struct {
	by                    types.NamespacedName
	kind, namespace, name string
}

// includes reports whether the change of an object concerns the use.
func (u use) includes(kind string, changed types.NamespacedName) bool {
	if u.kind == signer {
		return kind == clusterTrustBundle && strings.HasPrefix(changed.Name, certificates.TrustBundlePrefix(u.name))
	}
	return u.kind == kind && u.namespace == changed.Namespace && (u.name == "" || u.name == changed.Name)
}

// follow wakes TrustBundles when objects that they use change, until ctx ends.
func (r *reconciler) follow(ctx context.Context, queue worker.Queue) error {
	r.queue = queue
	go r.watch(ctx, configMap, worker.OneVersion(corev1.SchemeGroupVersion, "configmaps", r.Versions))
	go r.watch(ctx, secret, worker.OneVersion(corev1.SchemeGroupVersion, "secrets", r.Versions))
	go r.watch(ctx, cmv1.IssuerKind, worker.OneVersion(cmv1.SchemeGroupVersion, "issuers", r.Versions))
	go r.watch(ctx, cmv1.ClusterIssuerKind, worker.OneVersion(cmv1.SchemeGroupVersion, "clusterissuers", r.Versions))
	go r.watch(ctx, clusterTrustBundle, worker.TrustBundles(r.Versions))
	if r.DefaultCAs != nil {
		go r.DefaultCAs.Run(ctx, r.Clock)
		go worker.OnChange(ctx, r.DefaultCAs.Changed.Subscribe, func() { r.wake(func(u use) bool { return u.kind == defaultCAs }) })
	}
	return nil
}

// watch wakes the users of the objects of a kind. It keeps no objects in memory.
func (r *reconciler) watch(ctx context.Context, kind string, resource worker.Resource) {
	resource.Follow(ctx, "Reading "+resource.Name+" for TrustBundles", func(ctx context.Context, version string) error {
		watcher, err := changewatch.New(r.API, schema.GroupVersionResource{Group: resource.Group, Version: version, Resource: resource.Name}, "")
		if err != nil {
			return err
		}
		watcher.Run(ctx, changewatch.Listener{
			Changed: func(changed types.NamespacedName, _ string) {
				r.wake(func(u use) bool { return u.includes(kind, changed) })
			},
			Missed: func() {
				r.wake(func(u use) bool { return u.kind == kind || u.kind == signer })
				if kind == clusterTrustBundle {
					r.wakeOwners(ctx)
				}
			},
		})
		return nil
	})
}

// wake queues the TrustBundles with a use that is concerned.
func (r *reconciler) wake(concerned func(use) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for u := range r.uses {
		if concerned(u) {
			r.queue.AddAfter(reconcile.Request{NamespacedName: u.by}, collectFor)
		}
	}
}

// wakeOwners queues the owners of all ClusterTrustBundles, for those that were deleted meanwhile.
func (r *reconciler) wakeOwners(ctx context.Context) {
	targets, err := r.find(ctx, clusterTrustBundle, "", "", client.HasLabels{v1alpha1.TrustNamespaceLabel})
	if err != nil {
		worker.CannotWake(ctx, err, "Cannot find the owners of ClusterTrustBundles")
	}
	for i := range targets {
		if owner := targetOf(&targets[i]); owner.Name != "" {
			r.queue.AddAfter(reconcile.Request{NamespacedName: owner}, collectFor)
		}
	}
}
