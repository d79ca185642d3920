// Package publish keeps the CA of the API server's certificate in every
// namespace, where programs look for it.
package publish

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/issuing/roots"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/rollover"
	"github.com/certplane/certplane/internal/process/collector/syncmetrics"
	"github.com/certplane/certplane/internal/process/worker"
)

const (
	// Name is the name of the config maps.
	Name = "kube-root-ca.crt"
	// key is the key of the bundle in a config map.
	key = "ca.crt"

	// formerAnnotation on the config map in kube-system has the SHA-256 digests of
	// former roots with the times at which they go (RFC 3339), so that a restart does
	// not end the overlap.
	formerAnnotation = "certplane.dev/former-roots"

	descriptionAnnotation = "kubernetes.io/description"
	description           = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as " +
		"the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."
)

// lookEvery is the interval at which the publisher checks for changed roots.
const lookEvery = 5 * time.Second

// Config is the configuration of the publisher.
type Config struct {
	// Client writes config maps as the publisher's own identity.
	Client client.Client
	// ConfigMaps needs to hold only the config maps called Name.
	ConfigMaps cache.Cache
	// Roots are the roots of the API server's certificate. Servers that share a
	// store must use the same roots, or they undo each other's writes.
	Roots roots.Roots
	// Settings are the user's settings.
	Settings Settings
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
	// Events, if not nil, records config maps that cannot be fixed.
	Events events.EventRecorder
	// Metrics, if not nil, is where the publisher's metrics are registered.
	Metrics prometheus.Registerer
}

// Add adds the publisher to mgr, whose cache it reads namespaces from.
func Add(mgr ctrl.Manager, cfg Config) error {
	r, err := newReconciler(mgr.GetCache(), cfg)
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(mgr).
		Named("root-ca-publisher").
		For(&corev1.Namespace{}).
		WatchesRawSource(source.Kind(cfg.ConfigMaps, &corev1.ConfigMap{}, handler.TypedEnqueueRequestsFromMapFunc(itsNamespace))).
		WatchesRawSource(source.Func(r.watchRoots)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("building the root CA publisher: %w", err)
	}
	return nil
}

func newReconciler(namespaces client.Reader, cfg Config) (*reconciler, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Roots == nil || len(cfg.Roots()) == 0 {
		return nil, errNoRoots
	}
	metrics, err := syncmetrics.New(cfg.Metrics, "root_ca_cert_publisher", "the config map of a namespace")
	if err != nil {
		return nil, fmt.Errorf("registering the root CA publisher's metrics: %w", err)
	}
	return &reconciler{
		namespaces: namespaces, configMaps: cfg.ConfigMaps, client: cfg.Client,
		roots: &roots.Overlapping{Today: cfg.Roots, Overlap: cfg.Settings.Overlap.Duration, Clock: cfg.Clock},
		clock: cfg.Clock, events: cfg.Events, metrics: metrics,
	}, nil
}

// errNoRoots reports that no roots exist. An empty bundle must not be published.
var errNoRoots = errors.New("no root certificates to publish: set publishing.rootCAFile to a file that contains them")

type reconciler struct {
	namespaces, configMaps client.Reader
	client                 client.Writer
	roots                  *roots.Overlapping
	remembered             atomic.Bool // the former roots of an earlier process
	clock                  clock.PassiveClock
	events                 events.EventRecorder // can be nil
	metrics                *syncmetrics.Metrics
}

func itsNamespace(_ context.Context, config *corev1.ConfigMap) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: config.Namespace}}}
}

// watchRoots queues all namespaces when the roots have changed.
func (r *reconciler) watchRoots(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	go roots.Watch(ctx, r.roots.Roots, lookEvery, func() {
		var namespaces corev1.NamespaceList
		if err := r.namespaces.List(ctx, &namespaces, client.UnsafeDisableDeepCopy); err != nil {
			worker.CannotWake(ctx, err, "Cannot list the namespaces to publish changed roots in them")
			return
		}
		for i := range namespaces.Items {
			queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: namespaces.Items[i].Name}})
		}
	})
	return nil
}

// Reconcile creates or fixes the config map of one namespace.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	start := r.clock.Now()
	err := r.sync(ctx, request.NamespacedName)
	r.metrics.Observe(err, r.clock.Since(start))
	if apierrors.IsInvalid(err) {
		err = reconcile.TerminalError(err) // it stays so until a user changes it
	}
	return reconcile.Result{}, err
}

func (r *reconciler) sync(ctx context.Context, name types.NamespacedName) error {
	var namespace corev1.Namespace
	if err := r.namespaces.Get(ctx, name, &namespace); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !namespace.DeletionTimestamp.IsZero() {
		return nil
	}
	if err := r.remember(ctx); err != nil {
		return err
	}
	anchors := r.roots.Anchors()
	if len(anchors) == 0 {
		return errNoRoots
	}
	stored, err := r.get(ctx, namespace.Name)
	if err != nil {
		return err
	}
	former := ""
	if namespace.Name == metav1.NamespaceSystem {
		former = formerText(anchors)
	}
	wanted, changed := fix(stored, string(pki.EncodeCertificates(rollover.Certificates(anchors)...)), former)
	switch {
	case stored.UID == "":
		return ignoreLate(r.client.Create(ctx, wanted))
	case changed:
		return r.tell(stored, ignoreLate(r.client.Update(ctx, wanted)))
	default:
		return nil
	}
}

// tell records an Event about a config map that cannot be fixed, such as one
// that a user has made immutable.
func (r *reconciler) tell(config *corev1.ConfigMap, err error) error {
	if apierrors.IsInvalid(err) && r.events != nil {
		r.events.Eventf(config, nil, corev1.EventTypeWarning, "CannotPublish", "Publish",
			"Cannot publish the roots of the API server here: delete this config map to have it created again: %v", err)
	}
	return err
}

// get returns the config map of a namespace. It has no UID if it does not
// exist.
func (r *reconciler) get(ctx context.Context, namespace string) (*corev1.ConfigMap, error) {
	config := &corev1.ConfigMap{}
	err := r.configMaps.Get(ctx, types.NamespacedName{Namespace: namespace, Name: Name}, config)
	if apierrors.IsNotFound(err) {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name}}, nil
	}
	return config, err
}

// remember reads the former roots that an earlier process has published, once. Only the
// config map in kube-system counts: users write in the others.
func (r *reconciler) remember(ctx context.Context) error {
	if r.remembered.Load() {
		return nil
	}
	stored, err := r.get(ctx, metav1.NamespaceSystem)
	if err != nil {
		return err
	}
	if r.remembered.CompareAndSwap(false, true) {
		r.roots.Remember(formerIn(stored))
	}
	return nil
}

// formerText returns the former roots among anchors with their ends, as they are stored.
func formerText(anchors []rollover.Anchor) string {
	var all []string
	for _, anchor := range anchors {
		if !anchor.Until.IsZero() {
			all = append(all, pki.Fingerprint(anchor.Certificate)+"="+anchor.Until.UTC().Format(time.RFC3339))
		}
	}
	return strings.Join(all, ",")
}

// formerIn returns the roots in a config map. Those without a time in its annotation were
// current when it was written. A config map that cannot be read has none.
func formerIn(config *corev1.ConfigMap) []rollover.Anchor {
	certs, err := pki.ParseCertificates([]byte(config.Data[key]))
	if err != nil {
		return nil
	}
	until := map[string]time.Time{}
	for entry := range strings.SplitSeq(config.Annotations[formerAnnotation], ",") {
		fingerprint, at, _ := strings.Cut(entry, "=")
		if end, err := time.Parse(time.RFC3339, at); err == nil {
			until[fingerprint] = end
		}
	}
	var anchors []rollover.Anchor
	for _, cert := range certs {
		anchors = append(anchors, rollover.Anchor{Certificate: cert, Until: until[pki.Fingerprint(cert)]})
	}
	return anchors
}

// fix returns config as it should be, and whether that is a change. The bundle
// must be all of its data; any description is kept. former is the annotation with the
// ends of former roots; empty means none.
func fix(config *corev1.ConfigMap, bundle, former string) (*corev1.ConfigMap, bool) {
	data := map[string]string{key: bundle}
	if maps.Equal(config.Data, data) && config.Annotations[descriptionAnnotation] != "" && config.Annotations[formerAnnotation] == former {
		return config, false
	}
	fixed := config.DeepCopy()
	fixed.Data = data
	if fixed.Annotations == nil {
		fixed.Annotations = map[string]string{}
	}
	fixed.Annotations[descriptionAnnotation] = description
	delete(fixed.Annotations, formerAnnotation)
	if former != "" {
		fixed.Annotations[formerAnnotation] = former
	}
	return fixed, true
}

// ignoreLate drops the errors of a write that came too late: another client has
// written the config map, which causes a watch event, or has deleted the
// namespace.
func ignoreLate(err error) error {
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || worker.IsTooLate(err) {
		return nil
	}
	return err
}
