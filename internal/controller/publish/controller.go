// Package publish keeps the CA of the API server's certificate in every
// namespace, where programs look for it.
package publish

import (
	"context"
	"crypto/x509"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/pki"
)

const (
	// Name is the name of the config maps.
	Name = "kube-root-ca.crt"
	// key is where in a config map the bundle is.
	key = "ca.crt"

	descriptionAnnotation = "kubernetes.io/description"
	description           = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as " +
		"the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."
)

// Config is what the controller is made of.
type Config struct {
	// Client writes config maps as the controller's own identity.
	Client client.Client
	// ConfigMaps needs to hold the config maps called Name alone.
	ConfigMaps cache.Cache
	// CA is what the certificate of the API server chains to. Servers that
	// share a store must share it, or they undo each other's writes.
	CA []*x509.Certificate
}

// Add registers the controller with mgr, whose cache it reads namespaces from.
func Add(mgr ctrl.Manager, cfg Config) error {
	r := &reconciler{namespaces: mgr.GetCache(), configMaps: cfg.ConfigMaps, client: cfg.Client, bundle: string(pki.EncodeCertificates(cfg.CA...))}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("root-ca-publisher").
		For(&corev1.Namespace{}).
		WatchesRawSource(source.Kind(cfg.ConfigMaps, &corev1.ConfigMap{}, handler.TypedEnqueueRequestsFromMapFunc(itsNamespace))).
		WithOptions(controller.Options{SkipNameValidation: ptr.To(true)}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("building the root CA publisher: %w", err)
	}
	return nil
}

type reconciler struct {
	namespaces, configMaps client.Reader
	client                 client.Writer
	bundle                 string
}

func itsNamespace(_ context.Context, config *corev1.ConfigMap) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: config.Namespace}}}
}

// Reconcile makes or mends the config map of one namespace.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var namespace corev1.Namespace
	if err := r.namespaces.Get(ctx, request.NamespacedName, &namespace); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !namespace.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	stored, err := r.get(ctx, namespace.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	wanted, changed := mend(stored, r.bundle)
	switch {
	case stored.UID == "":
		return reconcile.Result{}, ignoreLate(r.client.Create(ctx, wanted))
	case changed:
		return reconcile.Result{}, ignoreLate(r.client.Update(ctx, wanted))
	default:
		return reconcile.Result{}, nil
	}
}

// get returns the config map of a namespace, without a UID if there is none.
func (r *reconciler) get(ctx context.Context, namespace string) (*corev1.ConfigMap, error) {
	config := &corev1.ConfigMap{}
	err := r.configMaps.Get(ctx, types.NamespacedName{Namespace: namespace, Name: Name}, config)
	if apierrors.IsNotFound(err) {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name}}, nil
	}
	return config, err
}

// mend returns config as it should be, and whether it is not so yet: with the
// bundle as all of its data, and with any description.
func mend(config *corev1.ConfigMap, bundle string) (*corev1.ConfigMap, bool) {
	data := map[string]string{key: bundle}
	if maps.Equal(config.Data, data) && config.Annotations[descriptionAnnotation] != "" {
		return config, false
	}
	mended := config.DeepCopy()
	mended.Data = data
	if mended.Annotations == nil {
		mended.Annotations = map[string]string{}
	}
	mended.Annotations[descriptionAnnotation] = description
	return mended, true
}

// ignoreLate drops the errors of a write that somebody was faster than: by
// writing the config map, of which an event comes, or by ending the namespace.
func ignoreLate(err error) error {
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err) ||
		apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return err
}
