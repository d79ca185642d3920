// Package podsync is the agent's loop over its pods: it keeps their volumes as
// their manifests describe them.
package podsync

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/agent/crl"
	"github.com/certplane/certplane/internal/agent/hook"
	"github.com/certplane/certplane/internal/agent/manifests"
	"github.com/certplane/certplane/internal/agent/node"
	"github.com/certplane/certplane/internal/agent/pods"
	"github.com/certplane/certplane/internal/agent/records"
	"github.com/certplane/certplane/internal/agent/requests"
	"github.com/certplane/certplane/internal/agent/status"
	"github.com/certplane/certplane/internal/agent/trustbundle"
	"github.com/certplane/certplane/internal/process/backoff"
)

const (
	// resync is the interval between checks of a volume without an event: for changes of
	// its files by other processes, and for changes of ConfigMaps.
	resync = time.Minute
	// checkFiles is the interval between checks for deleted files.
	checkFiles = time.Second
	// removeAfter is how long a manifest has to be missing before its files are
	// removed. Editors and copies remove a manifest for a moment.
	removeAfter = 10 * time.Second
	// callTimeout bounds how long one sync of a pod may wait for the server.
	callTimeout = 30 * time.Second
	// workers is the number of pods that are synced at the same time. The workers also
	// create keys: an RSA key of 4096 bits takes seconds.
	workers = 4
)

// Config is the configuration of a keeper.
type Config struct {
	// Root is the folder with the volumes: NAMESPACE/POD/VOLUME.
	Root    string
	Records *records.Store
	Board   *status.Board
	Actions []hook.Action
	Metrics *Metrics
	Clock   clock.WithTicker
	Jitter  backoff.Jitter

	Node      *node.Node
	Client    kubernetes.Interface
	Discovery discovery.DiscoveryInterface
	Dynamic   dynamic.Interface
	Events    record.EventRecorder
}

// Keeper maintains the volumes of all manifests that it is given.
type Keeper struct {
	Config
	pods     *pods.Registry
	requests *requests.Client
	bundles  *trustbundle.Reader
	lists    *crl.Reader
	queue    workqueue.TypedDelayingInterface[string]
	backoff  workqueue.TypedRateLimiter[string]
	attempts *attempts

	mu      sync.Mutex
	wanted  map[string]manifests.Pod // by namespace/name
	leaving map[string]time.Time     // since when a manifest is missing
	whole   bool                     // a complete set of manifests was given
	retry   map[string]bool          // pods whose back-off after refusals is to be skipped
}

// New returns a keeper that starts to work when Run is called. Its watches end
// with ctx.
func New(ctx context.Context, cfg Config) *Keeper {
	k := &Keeper{
		Config: cfg, wanted: map[string]manifests.Pod{}, leaving: map[string]time.Time{}, retry: map[string]bool{},
		attempts: newAttempts(),
		queue:    workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{Clock: cfg.Clock}),
		backoff:  workqueue.NewTypedItemExponentialFailureRateLimiter[string](500*time.Millisecond, time.Minute),
	}
	k.pods = pods.New(ctx, pods.Config{Node: cfg.Node.Name, Client: cfg.Client, Discovery: cfg.Discovery, Dynamic: cfg.Dynamic, Changed: k.podChanged})
	k.requests = requests.New(ctx, cfg.Node.Name, cfg.Discovery, cfg.Dynamic, k.podChanged)
	k.bundles = trustbundle.NewReader(ctx, cfg.Discovery, cfg.Dynamic, k.wakeAll)
	k.lists = crl.NewReader(ctx, cfg.Client.CoreV1().RESTClient(), cfg.Discovery, cfg.Dynamic, k.wakeAll)
	return k
}

// Set sets the pods that should exist. whole is false if a file could not be read; then no
// files are removed.
func (k *Keeper) Set(pods []manifests.Pod, whole bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.whole = k.whole || whole
	listed := map[string]bool{}
	for _, pod := range pods {
		listed[pod.Key()] = true
		delete(k.leaving, pod.Key())
		if known, ok := k.wanted[pod.Key()]; !ok || known.Hash != pod.Hash || known.File != pod.File {
			k.wanted[pod.Key()] = pod
			k.queue.Add(pod.Key())
		}
	}
	if !whole {
		return
	}
	for key := range k.wanted {
		if !listed[key] {
			k.leave(key)
		}
	}
}

// leave begins the removal of a pod. k.mu is held.
func (k *Keeper) leave(key string) {
	if _, known := k.leaving[key]; known {
		return
	}
	k.leaving[key] = k.Clock.Now()
	k.queue.AddAfter(key, removeAfter+time.Millisecond)
}

// Retry immediately asks again for everything that was refused.
func (k *Keeper) Retry() {
	k.mu.Lock()
	for key := range k.wanted {
		k.retry[key] = true
	}
	k.mu.Unlock()
	k.wakeAll()
}

// Run runs the workers until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	var group wait.Group
	for range workers {
		group.StartWithContext(ctx, k.work)
	}
	group.StartWithContext(ctx, func(ctx context.Context) {
		wait.JitterUntilWithContext(ctx, k.sweep, resync, 0.2, true)
	})
	group.StartWithContext(ctx, func(ctx context.Context) { wait.UntilWithContext(ctx, k.restore, checkFiles) })
	<-ctx.Done()
	k.queue.ShutDown()
	group.Wait()
}

func (k *Keeper) work(ctx context.Context) {
	for {
		key, done := k.queue.Get()
		if done {
			return
		}
		k.look(ctx, key)
		k.queue.Done(key)
	}
}

// look updates one pod and schedules the next check.
func (k *Keeper) look(ctx context.Context, key string) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	wake, err := k.sync(ctx, key)
	if err != nil && ctx.Err() != context.Canceled {
		klog.FromContext(ctx).V(2).Info("Pod is not up to date", "pod", key, "err", err)
		// The random delay keeps all hosts from calling a server that has just
		// come back at the same time.
		wait := k.backoff.When(key)
		k.queue.AddAfter(key, wait+k.Jitter(wait/2))
	} else {
		k.backoff.Forget(key)
	}
	if !wake.IsZero() {
		k.queue.AddAfter(key, max(0, wake.Sub(k.Clock.Now())))
	}
}

// restore queues the pods whose files were deleted. A volume that could not be written has
// its own time for the next attempt.
func (k *Keeper) restore(context.Context) {
	for _, pod := range k.Board.Host().Pods {
		if slices.ContainsFunc(pod.Volumes, func(v status.Volume) bool { return v.Error == "" && lost(v) }) {
			k.queue.Add(pod.Namespace + "/" + pod.Name)
		}
	}
}

// lost reports whether files of a volume do not exist.
func lost(v status.Volume) bool {
	return slices.ContainsFunc(v.Sources, func(s status.Source) bool { return v.Lost(s) != "" })
}

// sync returns when to look again at the latest; zero means not before an
// event.
func (k *Keeper) sync(ctx context.Context, key string) (time.Time, error) {
	k.mu.Lock()
	manifest, wanted := k.wanted[key]
	since, leaving := k.leaving[key]
	k.mu.Unlock()
	now := k.Clock.Now()
	switch {
	case leaving && now.Sub(since) >= removeAfter:
		return time.Time{}, k.remove(ctx, key)
	case !wanted:
		return time.Time{}, nil
	}
	return k.keep(ctx, manifest)
}

// podChanged queues the pod with this name of a Pod in the API.
func (k *Keeper) podChanged(name types.NamespacedName) {
	key := name.Namespace + "/" + k.manifestOf(name.Name)
	k.mu.Lock()
	_, known := k.wanted[key]
	k.mu.Unlock()
	if known {
		k.queue.Add(key)
	}
}

func (k *Keeper) manifestOf(pod string) string { return strings.TrimSuffix(pod, "-"+k.Node.Name) }

func (k *Keeper) wakeAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key := range k.wanted {
		k.queue.Add(key)
	}
}

// takeRetry reports, once, whether a pod's back-off after refusals is to be
// skipped.
func (k *Keeper) takeRetry(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	retry := k.retry[key]
	delete(k.retry, key)
	return retry
}

// dir returns the folder of a volume.
func (k *Keeper) dir(s *volumeState) string {
	if s.Dir != "" {
		return s.Dir
	}
	return k.ownDir(s.id)
}

// ownDir returns the folder of a volume that is in the folder of all volumes.
func (k *Keeper) ownDir(id records.ID) string {
	return filepath.Join(k.Root, id.Namespace, id.Pod, id.Volume)
}

// describe returns the name of a volume for errors.
func describe(id records.ID) string {
	return fmt.Sprintf("%s/%s volume %s", id.Namespace, id.Pod, id.Volume)
}
