// Package certificateshim creates Certificates of cert-manager.io for annotated Ingresses,
// Gateways and ListenerSets.
package certificateshim

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unique"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/certplane/certplane/internal/inprocess"
	"github.com/certplane/certplane/internal/issuing/certmetrics"
	"github.com/certplane/certplane/internal/policy/shim"
	"github.com/certplane/certplane/internal/process/worker"
)

const (
	// concurrency is how many objects of a kind are processed at the same time.
	concurrency = 10
	// The first and the longest wait before the next attempt for an object, as in cert-manager.
	firstPause, lastPause = 5 * time.Second, 5 * time.Minute
	// passTimeout limits the work on one object.
	passTimeout = 5 * time.Minute
)

// Config is the configuration of the controllers.
type Config struct {
	// Cache is the configuration with which objects and Certificates are watched. It needs
	// get, list and watch on certificates and on the kinds of the controller.
	Cache *rest.Config
	// Client reads and writes Certificates past caches. It needs get, create, update and
	// delete on certificates, and update on the finalizers of the owners.
	Client client.Client
	// Namespaces is a cache that may read namespaces; only AddGateways needs it.
	Namespaces cache.Cache
	// Versions returns the resources of a version of the API.
	Versions worker.Lookup
	// Ingress and Gateway are the user's settings.
	Ingress shim.IngressSettings
	Gateway shim.GatewaySettings
	// Events returns the recorder for Events in the name of a component.
	Events func(component string) events.EventRecorder
	// Metrics counts the work.
	Metrics *certmetrics.Metrics
}

// kind is a kind of objects that own Certificates.
type kind struct {
	schema.GroupVersionKind
	// resource is the plural.
	resource string
	// controller is the name in metrics and the log; component is the source of Events and
	// the manager of the fields of Certificates. All are those of cert-manager.
	controller, component string
	object                client.Object
	list                  client.ObjectList
}

var (
	ingressKind = kind{
		shim.IngressKind, "ingresses", "ingress-shim", "cert-manager-ingress-shim",
		&networkingv1.Ingress{}, &networkingv1.IngressList{},
	}
	gatewayKind = kind{
		shim.GatewayKind, "gateways", "gateway-shim", "cert-manager-gateway-shim",
		&gatewayv1.Gateway{}, &gatewayv1.GatewayList{},
	}
	listenerSetKind = kind{
		shim.ListenerSetKind, "listenersets", "listenerset", "cert-manager-listenerset",
		&gatewayv1.ListenerSet{}, &gatewayv1.ListenerSetList{},
	}
)

// AddIngresses adds the controller for Ingresses. It works while the API has Certificates.
func AddIngresses(mgr ctrl.Manager, cfg Config) error { return add(mgr, cfg, ingressKind) }

// AddGateways adds the controllers for Gateways and ListenerSets. They work while the API has
// Certificates and these kinds.
func AddGateways(mgr ctrl.Manager, cfg Config) error { return add(mgr, cfg, gatewayKind) }

func add(mgr ctrl.Manager, cfg Config, of kind) error {
	if err := mgr.Add(&controller{Config: cfg, Settings: shim.Settings{IngressSettings: cfg.Ingress, GatewaySettings: cfg.Gateway}, of: of}); err != nil {
		return fmt.Errorf("adding %s: %w", of.controller, err)
	}
	return nil
}

// controller creates Certificates for a kind of objects; with Gateways, also for ListenerSets.
type controller struct {
	Config
	shim.Settings
	of kind

	// certificates are the Certificates, while the API has them.
	certificates cache.Cache
}

// Start implements manager.Runnable.
func (c *controller) Start(ctx context.Context) error {
	return worker.OneVersion(cmv1.SchemeGroupVersion, "certificates", c.Versions).While(ctx, c.of.controller, "Creating Certificates", c.work)
}

// byOwner is the index of Certificates by the bucket of their controlling owner.
const byOwner = "owner"

func (c *controller) work(ctx context.Context, _ string) (err error) {
	if c.certificates, err = c.newCache(ownedScheme(), c.trimCertificate); err != nil {
		return err
	}
	err = c.certificates.IndexField(ctx, &owned{}, byOwner, func(o client.Object) []string {
		if owner := metav1.GetControllerOfNoCopy(o); owner != nil {
			return []string{bucketOf(owner.UID)}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing Certificates: %w", err)
	}
	return worker.Run(ctx, c.certificates, c.follow(c.of, nil))
}

func (c *controller) newCache(scheme *runtime.Scheme, trim toolscache.TransformFunc) (cache.Cache, error) {
	made, err := inprocess.NewCache(c.Cache, cache.Options{Scheme: scheme, Mapper: c.Client.RESTMapper(), DefaultTransform: trim})
	if err != nil {
		return nil, fmt.Errorf("making a cache of %s: %w", c.of.controller, err)
	}
	return made, nil
}

// follow returns the part that works on the objects of a kind while the API has it. gateways is
// the cache of Gateways, for ListenerSets.
func (c *controller) follow(of kind, gateways cache.Cache) worker.Part {
	return manager.RunnableFunc(func(ctx context.Context) error {
		if !c.certificates.WaitForCacheSync(ctx) || gateways != nil && !gateways.WaitForCacheSync(ctx) {
			return ctx.Err()
		}
		worker.OneVersion(of.GroupVersion(), of.resource, c.Versions).Follow(ctx, "Creating Certificates for "+of.resource, func(ctx context.Context, _ string) error {
			return c.serve(ctx, of, gateways)
		})
		return nil
	})
}

// byParent is the index of ListenerSets by their Gateway.
const byParent = "parent"

func (c *controller) serve(ctx context.Context, of kind, gateways cache.Cache) error {
	objects, err := c.newCache(c.Client.Scheme(), c.trimOwner)
	if err != nil {
		return err
	}
	if gateways != nil {
		err := objects.IndexField(ctx, of.object, byParent, func(o client.Object) []string {
			return []string{shim.ParentOf(o.(*gatewayv1.ListenerSet)).String()}
		})
		if err != nil {
			return fmt.Errorf("indexing %s: %w", of.resource, err)
		}
	}
	r := &reconciler{controller: c, kind: of, objects: objects, gateways: gateways, events: c.Events(of.component)}
	parts, watches := []worker.Part{objects}, []source.Source{
		source.Kind[client.Object](objects, of.object, &handler.EnqueueRequestForObject{}, predicate.Funcs{UpdateFunc: hasChanged}),
		wakes(c.certificates, &owned{}, r.ofCertificate),
	}
	switch {
	case of.Kind == gatewayKind.Kind && c.ListenerSets:
		parts = append(parts, c.follow(listenerSetKind, objects))
	case gateways != nil:
		watches = append(watches, wakes(gateways, &gatewayv1.Gateway{}, r.ofGateway), wakes(c.Namespaces, &corev1.Namespace{}, r.ofNamespace))
	}
	working, err := worker.New(ctx, of.controller, c.Metrics.Count(of.controller, r), worker.Options{
		Concurrency: concurrency, FirstPause: firstPause, LastPause: lastPause, Timeout: passTimeout,
	}, watches...)
	if err != nil {
		return err
	}
	return worker.Run(ctx, append(parts, manager.RunnableFunc(func(ctx context.Context) error {
		objects.WaitForCacheSync(ctx) // changes of other objects look up these
		return working.Start(ctx)
	}))...)
}

// wakes returns the source of the objects that a change in a cache concerns. Its handler stays in
// a cache that outlives the worker: there is one more for each time that a kind comes again.
func wakes(objects cache.Cache, example client.Object, concerned handler.MapFunc) source.Source {
	return source.Kind(objects, example, handler.EnqueueRequestsFromMapFunc(concerned), predicate.Funcs{UpdateFunc: hasChanged})
}

// hasChanged reports whether an update has changed a part of an object that the cache keeps:
// that is not the status.
func hasChanged(e event.UpdateEvent) bool {
	before := e.ObjectOld.DeepCopyObject().(client.Object)
	before.SetResourceVersion(e.ObjectNew.GetResourceVersion())
	before.SetGeneration(e.ObjectNew.GetGeneration())
	return !equality.Semantic.DeepEqual(before, e.ObjectNew)
}

// trimmed is the generation of objects that the cache has trimmed: it trims the objects of
// streamed lists twice.
const trimmed = -1

// trimOwner keeps what Certificates are made from.
func (c *controller) trimOwner(object any) (any, error) {
	o, ok := object.(client.Object)
	if !ok || o.GetGeneration() == trimmed {
		return object, nil
	}
	o.SetManagedFields(nil)
	o.SetGeneration(trimmed)
	o.SetAnnotations(c.read(o.GetAnnotations()))
	switch o := object.(type) {
	case *networkingv1.Ingress:
		o.Namespace = unique.Make(o.Namespace).Value()
		o.Spec, o.Status = networkingv1.IngressSpec{TLS: o.Spec.TLS}, networkingv1.IngressStatus{}
		if !c.Triggers(o) {
			o.Labels, o.Annotations, o.Spec = nil, nil, networkingv1.IngressSpec{}
		}
		return o, pack(o)
	case *gatewayv1.Gateway:
		o.Status = gatewayv1.GatewayStatus{}
	case *gatewayv1.ListenerSet:
		o.Status = gatewayv1.ListenerSetStatus{}
	}
	return object, nil
}

// pack moves the labels and annotations of an Ingress into its field generateName, while it is
// in the cache: a map takes 300 bytes more than its text.
func pack(o *networkingv1.Ingress) error {
	text, err := json.Marshal([]map[string]string{o.Labels, o.Annotations})
	o.GenerateName, o.Labels, o.Annotations = string(text), nil, nil
	return err
}

// unpack undoes pack.
func unpack(o *networkingv1.Ingress) error {
	var packed [2]map[string]string
	err := json.Unmarshal([]byte(o.GenerateName), &packed)
	o.GenerateName, o.Labels, o.Annotations = "", packed[0], packed[1]
	return err
}

// read returns the annotations that the controller reads.
func (c *controller) read(annotations map[string]string) map[string]string {
	kept := maps.Clone(annotations)
	maps.DeleteFunc(kept, func(key, _ string) bool {
		return !strings.HasPrefix(strings.TrimPrefix(key, "acme."), cmv1.SchemeGroupVersion.Group+"/") &&
			!slices.Contains(c.AutoAnnotations, key) && !slices.Contains(c.CopiedAnnotations, key)
	})
	return kept
}
