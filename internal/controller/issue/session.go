package issue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrl "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/inprocess"
	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/policy/issuance/secret"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/tenant/fairqueue"
)

const (
	// concurrency is the number of Certificates that are processed at the same time. Most
	// of the time is spent waiting for the API.
	concurrency = 10
	// The first and the longest wait before the next attempt for a Certificate
	// for which the API did not answer.
	firstPause = 200 * time.Millisecond
	lastPause  = 5 * time.Minute
	// passTimeout is the time limit for one pass over a Certificate, and for one RSA key:
	// the largest take minutes on a busy machine, and one that is made too late is made
	// again.
	passTimeout = 10 * time.Minute
)

type queue = worker.Queue

// work issues Certificates until ctx ends.
func (c *controller) work(ctx context.Context, _ string) error {
	r := &reconciler{
		controller: c, sights: &sights{all: map[types.NamespacedName]*sight{}},
		order: order{starts: fairqueue.New(c.Clock), finishes: fairqueue.New(c.Clock)},
	}
	r.rsa = newRSAKeys(r)
	if err := errors.Join(r.openObjects(ctx), r.openKeys(ctx)); err != nil {
		return err
	}
	issuing, err := r.newWorker(ctx)
	if err != nil {
		return err
	}
	making, err := r.rsa.newMaker(ctx)
	if err != nil {
		return err
	}
	parts := []worker.Part{r.objects, r.keys, issuing, making}
	if r.asksCAs() {
		asking, err := r.newAsker(ctx)
		if err != nil {
			return err
		}
		parts = append(parts, asking)
	}
	defer r.Metrics.ShowCertificates(func(ctx context.Context) []*cmv1.Certificate { return r.list(ctx) })()
	return worker.Run(ctx, parts...)
}

// Names of indexes.
const (
	bySecretName  = "spec.secretName"
	byAnySecret   = "secret"
	byCertificate = "certificate"
)

// openObjects makes the cache of Certificates and their requests.
func (r *reconciler) openObjects(ctx context.Context) (err error) {
	r.objects, err = inprocess.NewCache(r.Cache, cache.Options{
		Scheme: r.Client.Scheme(), Mapper: r.Client.RESTMapper(),
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject:         map[client.Object]cache.ByObject{&cmv1.CertificateRequest{}: {Transform: stripRequest}},
	})
	if err != nil {
		return fmt.Errorf("making the cache of Certificates: %w", err)
	}
	err = errors.Join(
		r.objects.IndexField(ctx, &cmv1.Certificate{}, bySecretName, func(o client.Object) []string {
			return []string{o.(*cmv1.Certificate).Spec.SecretName}
		}),
		r.objects.IndexField(ctx, &cmv1.Certificate{}, byAnySecret, secretsOf),
		r.objects.IndexField(ctx, &cmv1.CertificateRequest{}, byCertificate, certificatesOf),
	)
	if err != nil {
		return fmt.Errorf("indexing Certificates: %w", err)
	}
	return nil
}

// openKeys makes the cache of the metadata of Secrets that hold keys for next
// certificates. Such a Secret exists while a Certificate is being issued.
func (r *reconciler) openKeys(ctx context.Context) (err error) {
	r.keys, err = inprocess.NewCache(r.API, cache.Options{
		Scheme: r.Client.Scheme(), Mapper: r.Client.RESTMapper(),
		DefaultTransform:     cache.TransformStripManagedFields(),
		DefaultLabelSelector: labels.SelectorFromSet(issuance.NextKeyLabels()),
	})
	if err != nil {
		return fmt.Errorf("making the cache of keys: %w", err)
	}
	if err := r.keys.IndexField(ctx, secretMetadata(), byCertificate, ownersOf); err != nil {
		return fmt.Errorf("indexing keys: %w", err)
	}
	return nil
}

// secretsOf returns the names of the Secrets that a Certificate writes or
// reads.
func secretsOf(o client.Object) []string {
	spec := &o.(*cmv1.Certificate).Spec
	names := []string{spec.SecretName}
	jks, pkcs12 := secret.PasswordRefs(spec)
	for _, ref := range []*secret.PasswordRef{jks, pkcs12} {
		if ref != nil && ref.Secret != "" && !slices.Contains(names, ref.Secret) {
			names = append(names, ref.Secret)
		}
	}
	return names
}

// stripRequest keeps those parts of a request that decisions need: certificates
// are read once, when they have been issued.
func stripRequest(object any) (any, error) {
	if cr, ok := object.(*cmv1.CertificateRequest); ok {
		cr.ManagedFields = nil
		cr.Status.Certificate, cr.Status.CA = nil, nil
		cr.Spec.Groups, cr.Spec.Extra = nil, nil
	}
	return object, nil
}

// certificatesOf returns the names of the Certificates that a request matters
// to: those that own it, the one that it names, and the one whose request would
// have its name.
func certificatesOf(o client.Object) []string {
	names := ownersOf(o)
	if name := o.GetAnnotations()[cmv1.CertificateNameKey]; name != "" {
		names = append(names, name)
	}
	if i := strings.LastIndexByte(o.GetName(), '-'); i > 0 {
		names = append(names, o.GetName()[:i])
	}
	return names
}

// ownersOf returns the name of the Certificate that controls an object, or
// nothing.
func ownersOf(o client.Object) []string {
	if owner := certmanager.OwnerCertificate(o); owner != "" {
		return []string{owner}
	}
	return nil
}

func (r *reconciler) newWorker(ctx context.Context) (ctrl.Controller, error) {
	return worker.New(ctx, "certificates", r.Metrics.Count("certificates", r), worker.Options{
		Concurrency: concurrency, FirstPause: firstPause, LastPause: lastPause, Timeout: passTimeout,
	},
		source.Kind(r.objects, client.Object(&cmv1.Certificate{}), r.certificateEvents()),
		source.Kind(r.objects, client.Object(&cmv1.CertificateRequest{}), r.relativeEvents(certificatesOf)),
		source.Kind(r.keys, client.Object(secretMetadata()), r.relativeEvents(ownersOf)),
		source.Func(r.watchSecrets), source.Func(r.watchRevocations),
		source.Channel(r.rsa.made, queuedBy(r.order.finish)),
	)
}

func secretMetadata() *metav1.PartialObjectMetadata {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return secret
}

// withSecretName returns the Certificates whose Secret this is to be. They must
// not be modified.
func (r *reconciler) withSecretName(ctx context.Context, namespace, secretName string) []*cmv1.Certificate {
	return r.byIndex(ctx, bySecretName, namespace, secretName)
}

func (r *reconciler) byIndex(ctx context.Context, index, namespace, secretName string) []*cmv1.Certificate {
	return r.list(ctx, client.InNamespace(namespace), client.MatchingFields{index: secretName})
}

func (r *reconciler) list(ctx context.Context, options ...client.ListOption) []*cmv1.Certificate {
	list := &cmv1.CertificateList{}
	if err := r.objects.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		worker.CannotWake(ctx, err, "Cannot list Certificates") // a bug of ours: the cache and its index exist
	}
	return pointers(list.Items)
}

func pointers[T any](items []T) []*T {
	all := make([]*T, len(items))
	for i := range items {
		all[i] = &items[i]
	}
	return all
}
