package cainject

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/policy/injection"
	"github.com/certplane/certplane/internal/process/eventtext"
	"github.com/certplane/certplane/internal/process/worker"
)

const (
	// Another client may reset a target mostResets times within contestTime before the
	// controller restores it only once in contestPause.
	mostResets   = 6
	contestTime  = 10 * time.Minute
	contestPause = time.Minute
)

// state is what the controller remembers of a target.
type state struct {
	source injection.Source
	secret types.NamespacedName // the one that was read last
	// written are the fields after the last write, and resets the times of the writes that
	// restored them.
	written string
	resets  []time.Time
}

// certificate returns the Certificate that is the source, if one is.
func (s *state) certificate() types.NamespacedName {
	if s.source.Annotation != cmv1.WantInjectAnnotation {
		return types.NamespacedName{}
	}
	name, _ := s.source.Object()
	return name
}

// Reconcile writes the CA into a target that lacks it.
func (r *reconciler) Reconcile(ctx context.Context, t target) (reconcile.Result, error) {
	result, err := r.inject(ctx, t)
	if err != nil {
		return result, fmt.Errorf("injecting a CA into the %s: %w", t, err)
	}
	return result, nil
}

func (r *reconciler) inject(ctx context.Context, t target) (reconcile.Result, error) {
	object := &unstructured.Unstructured{}
	k := injection.KindNamed(t.kind)
	object.SetGroupVersionKind(k.GroupVersionKind)
	err := r.Client.Get(ctx, client.ObjectKey{Name: t.name}, object)
	gone := apierrors.IsNotFound(err) || meta.IsNoMatchError(err)
	if err != nil && !gone {
		return reconcile.Result{}, err
	}
	from := injection.SourceOf(object)
	if gone || object.GetDeletionTimestamp() != nil || from.Annotation == "" {
		r.forget(t)
		return reconcile.Result{}, nil
	}
	s := r.remember(t, from)
	certs, why, err := r.read(ctx, s)
	if why != nil {
		r.warn(object, why)
	}
	if err != nil || why != nil {
		return reconcile.Result{}, err
	}
	now := r.Clock.Now()
	fields, patch := k.Fields(object.Object)
	before, after, changed, trimmed := "", "", false, 0
	for _, field := range fields {
		bundle, differs, dropped := injection.Merge(field.Bundle(), certs, now)
		before, after = before+field.Text()+",", after+field.Set(bundle)+","
		changed, trimmed = changed || differs, trimmed+dropped
	}
	s.resets = slices.DeleteFunc(s.resets, func(at time.Time) bool { return now.Sub(at) >= contestTime })
	if changed {
		if wait := r.contest(s, object, before, now); wait > 0 {
			return reconcile.Result{RequeueAfter: wait}, nil
		}
		if err := r.write(ctx, object, patch); err != nil {
			return r.notWritten(object, err)
		}
		s.written = after
	}
	if trimmed > 0 {
		r.warn(object, injection.Problemf("CABundleTrimmed", "Removed %d certificates that became valid first: a caBundle holds at most %d certificates and %d bytes.", trimmed, injection.MostCertificates, injection.MostBytes))
	}
	if len(s.resets) > mostResets {
		return reconcile.Result{}, nil
	}
	if trimmed == 0 {
		r.said.News(t)
	}
	if changed {
		r.Events.Eventf(object, nil, corev1.EventTypeNormal, "CAInjected", "Inject", "Wrote the CA that the annotation %s names.", from.Annotation)
	}
	return reconcile.Result{}, nil
}

// contest returns how long to wait before restoring a target that another client resets
// again and again. before are the fields as they are stored.
func (r *reconciler) contest(s *state, object *unstructured.Unstructured, before string, now time.Time) time.Duration {
	if s.written == "" || s.written == before {
		return 0
	}
	if len(s.resets) >= mostResets {
		r.warn(object, injection.Problemf("CAInjectionContested", "The field manager %s resets the CA again and again: it is restored at most once in %s. Have it ignore the field caBundle.", otherManager(object), contestPause))
		if wait := contestPause - now.Sub(s.resets[len(s.resets)-1]); wait > 0 {
			return wait
		}
	}
	s.resets = append(s.resets, now)
	return 0
}

// otherManager returns the other field manager that has written a caBundle last.
func otherManager(object *unstructured.Unstructured) string {
	last := metav1.ManagedFieldsEntry{Manager: "(unknown)"}
	for _, entry := range object.GetManagedFields() {
		hasWritten := entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), `"f:caBundle"`)
		if entry.Manager != Component && hasWritten && !entry.Time.Before(last.Time) {
			last = entry
		}
	}
	return last.Manager
}

// write applies the fields of patch, if the object has not changed since it was read. Fields
// that an older cert-manager has updated become applied ones first.
func (r *reconciler) write(ctx context.Context, object *unstructured.Unstructured, patch map[string]any) error {
	applied := &unstructured.Unstructured{Object: patch}
	applied.SetGroupVersionKind(object.GroupVersionKind())
	applied.SetName(object.GetName())
	applied.SetResourceVersion(object.GetResourceVersion())
	upgrade, err := csaupgrade.UpgradeManagedFieldsPatch(object, sets.New(Component), Component)
	if err != nil {
		return fmt.Errorf("reading managed fields: %w", err)
	}
	if len(upgrade) > 0 {
		upgraded := object.DeepCopy()
		if err := r.Client.Patch(ctx, upgraded, client.RawPatch(types.JSONPatchType, upgrade)); err != nil {
			return err
		}
		applied.SetResourceVersion(upgraded.GetResourceVersion())
	}
	return r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.ForceOwnership, client.FieldOwner(Component))
}

// notWritten returns what follows from the error of a write.
func (r *reconciler) notWritten(object *unstructured.Unstructured, err error) (reconcile.Result, error) {
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return reconcile.Result{RequeueAfter: worker.ConflictPause}, nil
	case worker.IsRefused(err):
		r.warn(object, injection.Problemf("CAInjectionRefused", "The API has refused to write the CA: %s", eventtext.Line(err.Error())))
		return reconcile.Result{RequeueAfter: worker.RefusedPause}, nil
	}
	return reconcile.Result{}, err
}

// warn reports a problem once.
func (r *reconciler) warn(object *unstructured.Unstructured, p *injection.Problem) {
	for range r.said.News(target{object.GetKind(), object.GetName()}, *p) {
		r.Events.Eventf(object, nil, corev1.EventTypeWarning, p.Reason, "Inject", "%s", eventtext.Fit(p.Message))
	}
}

// remember returns the state of a target, and notes its source.
func (r *reconciler) remember(t target, from injection.Source) *state {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known[t] == nil {
		r.known[t] = &state{}
	}
	if s := r.known[t]; s.source != from {
		s.source, s.secret, s.written, s.resets = from, types.NamespacedName{}, "", nil
	}
	return r.known[t]
}

func (r *reconciler) forget(t target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, t)
	r.said.News(t)
}
