package trust

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/policy/rollover"
)

type bundle = certificatesv1.ClusterTrustBundle

// reconciler reconciles the bundles of a signer, in one version of the API.
type reconciler struct {
	*publisher
	kind    schema.GroupVersionKind
	objects client.Reader
}

// Reconcile makes the bundles of a signer match its present roots.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	start := r.Clock.Now()
	var again time.Time
	var err error
	if signer, ok := r.signer(request.Name); ok {
		again, err = r.sync(ctx, signer)
	} else {
		again, err = r.removeOrphans(ctx, request.Name)
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return reconcile.Result{RequeueAfter: pause}, nil // the cache is behind
	}
	r.metrics.Observe(err, r.Clock.Since(start))
	if err != nil || again.IsZero() {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: max(again.Sub(r.Clock.Now()), pause)}, nil
}

// sync returns the time of the next step, or zero.
func (r *reconciler) sync(ctx context.Context, signer Signer) (time.Time, error) {
	if signer.Roots == nil {
		return r.retire(ctx, signer)
	}
	today := signer.Roots()
	if len(today) == 0 && len(signer.Distrusted) > 0 {
		return r.retire(ctx, signer)
	}
	content, warning, err := rollover.Content(today)
	if warning != nil {
		log.FromContext(ctx).Info("Cannot publish all of the roots", "signer", signer.Name, "warning", warning.Error())
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("making the trust bundle of %s: %w", signer.Name, err)
	}
	existing, err := r.bundlesOf(ctx, signer)
	if err != nil {
		return time.Time{}, err
	}
	plan := signer.Bundles(content, existing, r.Clock.Now())
	return plan.Again, r.carryOut(ctx, plan)
}

// retire deletes the bundles of a removed signer when their time has come.
func (r *reconciler) retire(ctx context.Context, signer Signer) (time.Time, error) {
	existing, err := r.bundlesOf(ctx, signer)
	if err != nil {
		return time.Time{}, err
	}
	plan := signer.Retire(existing, r.Clock.Now())
	return plan.Again, r.carryOut(ctx, plan)
}

// removeOrphans deletes the bundles of a signer that was removed before this
// process knew of it.
func (r *reconciler) removeOrphans(ctx context.Context, name string) (time.Time, error) {
	existing, err := r.bundlesOf(ctx, Signer{Signer: rollover.Signer{Name: name}})
	if err != nil {
		return time.Time{}, err
	}
	known := r.Complete != nil && r.Complete()
	var again time.Time
	for _, b := range existing {
		plan := rollover.Orphan(b, known, r.Clock.Now())
		if err := r.carryOut(ctx, plan); err != nil {
			return time.Time{}, err
		}
		if again.IsZero() || !plan.Again.IsZero() && plan.Again.Before(again) {
			again = plan.Again
		}
	}
	if !known && len(existing) > 0 {
		again = r.Clock.Now().Add(lookEvery)
	}
	return again, nil
}

// bundlesOf returns the bundles of a signer, in any version.
func (r *reconciler) bundlesOf(ctx context.Context, signer Signer) ([]*bundle, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(r.kind)
	if err := r.objects.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing trust bundles: %w", err)
	}
	var bundles []*bundle
	for i := range list.Items {
		if signerNameOf(&list.Items[i]) != signer.Name {
			continue
		}
		b := &bundle{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, b); err != nil {
			return nil, fmt.Errorf("reading trust bundle %s: %w", list.Items[i].GetName(), err)
		}
		bundles = append(bundles, b)
	}
	return bundles, nil
}

// carryOut carries out a plan, in its order, up to the first failure: no root
// is removed before its successor exists.
func (r *reconciler) carryOut(ctx context.Context, plan rollover.Plan) error {
	for _, b := range plan.Create {
		if err := r.write(ctx, b, "Published", func(o client.Object) error { return r.Client.Create(ctx, o) }); err != nil {
			return err
		}
	}
	for _, b := range plan.Update {
		reason := "Published"
		if _, old := b.Annotations[rollover.UntilAnnotation]; old {
			reason = "Superseded"
		}
		if err := r.write(ctx, b, reason, func(o client.Object) error { return r.Client.Update(ctx, o) }); err != nil {
			return err
		}
	}
	for _, b := range plan.Delete {
		judged := client.Preconditions{UID: ptr.To(b.UID), ResourceVersion: ptr.To(b.ResourceVersion)}
		err := r.write(ctx, b, "Deleted", func(o client.Object) error { return client.IgnoreNotFound(r.Client.Delete(ctx, o, judged)) })
		if err != nil {
			return err
		}
	}
	return nil
}

// write makes one write and reports it.
func (r *reconciler) write(ctx context.Context, b *bundle, reason string, write func(client.Object) error) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(b)
	if err != nil {
		return fmt.Errorf("encoding trust bundle %s: %w", b.Name, err)
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(r.kind)
	if err := write(object); err != nil {
		return fmt.Errorf("writing trust bundle %s: %w", b.Name, err)
	}
	note := notes[reason]
	log.FromContext(ctx).V(verbosity[reason]).Info(note, "bundle", b.Name, "signer", b.Spec.SignerName, "until", b.Annotations[rollover.UntilAnnotation])
	if r.Events != nil {
		r.Events.Eventf(object, nil, corev1.EventTypeNormal, reason, "Publish", "%s", note)
	}
	return nil
}

// verbosity is 0 except for what is as expected.
var verbosity = map[string]int{"Published": 1}

// notes describe what has happened to a bundle.
var notes = map[string]string{
	"Published":  "Published the roots of the signer",
	"Superseded": "The signer has new roots; the old roots in this bundle stay trusted for a while",
	"Deleted":    "Deleted the trust bundle: it has expired, or its signer's publisher did not write it",
}
