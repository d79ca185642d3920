// Package nodelifecycle sets nodes that have gone silent to not ready, as
// kube-controller-manager's node lifecycle controller does. It sets no taints and evicts no
// pods: certplane does not run pods, and no component reads the taints. It also reports
// nodes whose name got a certificate for another key.
package nodelifecycle

import (
	"context"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/process/steadyclock"
)

// Name is the controller's name in a configuration, as in Kubernetes.
const Name = "node-lifecycle-controller"

// Config is the configuration of the controller.
type Config struct {
	// Client writes as the controller's own identity.
	Client client.Client
	// Leases needs to hold only the leases of the namespace kube-node-lease.
	Leases cache.Cache
	// Settings set how long a node may be silent.
	Settings Settings
	// Events records nodes that are silent.
	Events events.EventRecorder
	// Metrics gets the controller's metrics.
	Metrics prometheus.Registerer
	// Clock is the clock; nil means the machine's clock, protected against jumps ahead.
	Clock clock.PassiveClock
}

// Add registers the controller with mgr, whose cache it reads Nodes and
// CertificateSigningRequests from.
func Add(mgr ctrl.Manager, cfg Config) error {
	if cfg.Clock == nil {
		cfg.Clock = steadyclock.New()
	}
	r := &reconciler{Config: cfg, nodes: mgr.GetCache(), known: map[string]observation{}}
	if err := r.count(mgr); err != nil {
		return err
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named(Name).
		For(&corev1.Node{}).
		WatchesRawSource(source.Kind(cfg.Leases, &coordinationv1.Lease{}, handler.TypedEnqueueRequestsFromMapFunc(itsNode))).
		Complete(r)
	if err != nil {
		return fmt.Errorf("building the node lifecycle controller: %w", err)
	}
	if err := r.addTakeovers(mgr); err != nil {
		return fmt.Errorf("building the controller for taken node names: %w", err)
	}
	return nil
}

// itsNode returns the node of a lease: they have the same name.
func itsNode(_ context.Context, lease *coordinationv1.Lease) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: lease.Name}}}
}

type reconciler struct {
	Config
	nodes client.Reader

	mu sync.Mutex // guards known
	// known is when nodes have given their last signs of life. A process that
	// has just started gives each node the whole grace period.
	known map[string]observation
}

// Reconcile checks one node, and schedules the next check for the end of its grace period.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	node := &corev1.Node{}
	err := r.nodes.Get(ctx, types.NamespacedName{Name: request.Name}, node)
	if apierrors.IsNotFound(err) {
		r.forget(request.Name)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	lease := &coordinationv1.Lease{}
	err = r.Leases.Get(ctx, types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: node.Name}, lease)
	if apierrors.IsNotFound(err) {
		lease, err = nil, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	now := r.Clock.Now()
	due := r.observe(node.Name, signsOf(node, lease)).at.Add(r.Settings.GracePeriod.Duration)
	if now.Before(due) {
		return reconcile.Result{RequeueAfter: due.Sub(now)}, nil
	}
	return reconcile.Result{}, r.silence(ctx, node)
}

func (r *reconciler) observe(name string, s signs) observation {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[name] = r.known[name].observe(s, r.Clock.Now())
	return r.known[name]
}

func (r *reconciler) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, name)
}

// silence sets the conditions of a silent node, whose state is unknown.
func (r *reconciler) silence(ctx context.Context, node *corev1.Node) error {
	conditions, changed := silenced(node, r.Clock.Now())
	if !changed {
		return nil
	}
	updated := node.DeepCopy()
	updated.Status.Conditions = conditions
	// A node that has just written its own status is not silent.
	patch := client.StrategicMergeFrom(node, client.MergeFromWithOptimisticLock{})
	err := r.Client.Status().Patch(ctx, updated, patch)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the cache will bring the current state
	}
	if err != nil {
		return fmt.Errorf("marking node %s as not ready: %w", node.Name, err)
	}
	log.FromContext(ctx).Info("A node has stopped reporting its status", "node", node.Name, "gracePeriod", r.Settings.GracePeriod.Duration)
	if r.Events != nil {
		r.Events.Eventf(node, nil, corev1.EventTypeNormal, "NodeNotReady", "Monitor", "Node %s status is now: NodeNotReady", node.Name)
	}
	return nil
}
