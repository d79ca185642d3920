package policystatus

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/api/approverpolicy"
	"github.com/certplane/certplane/internal/process/eventtext"
)

// requestPolicyOwner owns the condition Ready of CertificateRequestPolicies: the
// field manager of approver-policy.
const requestPolicyOwner = "approver-policy"

// AddRequestPolicies adds the controller that reports in the status of approver-policy's
// CertificateRequestPolicies whether they are evaluated. Its Client needs get on
// certificaterequestpolicies, and patch on their status.
func AddRequestPolicies(mgr ctrl.Manager, cfg Config) error {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	return cfg.add(mgr, "requestpolicies", requestPolicyStatus{cfg}, func() map[string]any {
		bases := map[string]any{}
		for _, p := range cfg.Policies.RequestPolicies() {
			bases[p.Name()] = p
		}
		return bases
	})
}

type requestPolicyStatus struct{ Config }

// Reconcile writes the condition Ready of a policy.
func (s requestPolicyStatus) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	compiled := s.Policies.RequestPolicies().Named(key.Name)
	p := &approverpolicy.CertificateRequestPolicy{}
	if err := s.Client.Get(ctx, key.NamespacedName, p); compiled == nil || err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	ready := compiled.Readiness()
	if ready.ObservedGeneration != p.Generation {
		return reconcile.Result{RequeueAfter: time.Second}, nil // a newer one comes
	}
	ready.LastTransitionTime = metav1.NewTime(s.Clock.Now())
	conditions := slices.Clone(p.Status.Conditions)
	if !meta.SetStatusCondition(&conditions, ready) {
		return reconcile.Result{}, nil
	}
	if err := s.applyReady(ctx, p.Name, meta.FindStatusCondition(conditions, ready.Type)); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	s.report(p, ready)
	return reconcile.Result{}, nil
}

// applyReady applies only the condition, as approver-policy does.
func (s requestPolicyStatus) applyReady(ctx context.Context, name string, ready *metav1.Condition) error {
	condition, err := runtime.DefaultUnstructuredConverter.ToUnstructured(ready)
	if err != nil {
		return fmt.Errorf("encoding the condition: %w", err)
	}
	applied := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{condition}}}}
	applied.SetGroupVersionKind(approverpolicy.GroupVersion.WithKind(approverpolicy.Kind))
	applied.SetName(name)
	return s.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner(requestPolicyOwner), client.ForceOwnership)
}

func (s requestPolicyStatus) report(p *approverpolicy.CertificateRequestPolicy, ready metav1.Condition) {
	if s.Events == nil {
		return
	}
	kind := corev1.EventTypeNormal
	if ready.Status != metav1.ConditionTrue {
		kind = corev1.EventTypeWarning
	}
	s.Events.Eventf(p, nil, kind, ready.Reason, "Synced", "%s", eventtext.Fit(ready.Message))
}
