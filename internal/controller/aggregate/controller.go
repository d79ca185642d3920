package aggregate

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// fieldManager is the name under which Kubernetes writes aggregated rules.
// Clients that apply roles see the same owner here.
const fieldManager = "clusterrole-aggregation-controller"

// Config is the configuration of the controller.
type Config struct {
	// Client writes roles as the controller's own identity, which needs the
	// verb escalate on clusterroles.
	Client client.Client
}

// Add registers the controller with mgr, whose cache it reads from.
func Add(mgr ctrl.Manager, cfg Config) error {
	r := &reconciler{cache: mgr.GetCache(), client: cfg.Client}
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &rbacv1.ClusterRole{}, byRule, hasRule); err != nil {
		return fmt.Errorf("indexing ClusterRoles: %w", err)
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("clusterrole-aggregation").
		Watches(&rbacv1.ClusterRole{}, handler.EnqueueRequestsFromMapFunc(r.aggregated)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("building the ClusterRole aggregation controller: %w", err)
	}
	return nil
}

type reconciler struct {
	cache  client.Reader
	client client.Writer
}

// byRule indexes the aggregated roles: there can be many others.
const byRule = "aggregated"

func hasRule(o client.Object) []string {
	if o.(*rbacv1.ClusterRole).AggregationRule == nil {
		return nil
	}
	return []string{"true"}
}

// aggregated returns the aggregated roles that a changed role concerns: itself, and those
// that select it.
func (r *reconciler) aggregated(ctx context.Context, changed client.Object) []reconcile.Request {
	var roles rbacv1.ClusterRoleList
	if err := r.cache.List(ctx, &roles, client.MatchingFields{byRule: "true"}, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Could not list ClusterRoles")
		return nil
	}
	var requests []reconcile.Request
	for _, role := range roles.Items {
		if role.Name == changed.GetName() || selects(role.AggregationRule, changed) {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: role.Name}})
		}
	}
	return requests
}

// selects reports whether a rule selects a role. Reconcile reports selectors that cannot be
// read.
func selects(rule *rbacv1.AggregationRule, role client.Object) bool {
	return slices.ContainsFunc(rule.ClusterRoleSelectors, func(s metav1.LabelSelector) bool {
		selector, err := metav1.LabelSelectorAsSelector(&s)
		return err == nil && selector.Matches(labels.Set(role.GetLabels()))
	})
}

// Reconcile writes the union of rules into one role.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var role rbacv1.ClusterRole
	if err := r.cache.Get(ctx, request.NamespacedName, &role); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if role.AggregationRule == nil {
		return reconcile.Result{}, nil
	}
	var roles rbacv1.ClusterRoleList
	if err := r.cache.List(ctx, &roles, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing ClusterRoles: %w", err)
	}
	rules, err := Union(&role, roles.Items)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	if equality.Semantic.DeepEqual(rules, role.Rules) {
		return reconcile.Result{}, nil
	}
	updated := role.DeepCopy()
	updated.Rules = rules
	return reconcile.Result{}, r.write(ctx, updated)
}

// write updates instead of applying: an update cannot recreate a role that was just
// deleted, and it can remove the last rule. If the role has changed or is gone, a watch
// event triggers another Reconcile.
func (r *reconciler) write(ctx context.Context, role *rbacv1.ClusterRole) error {
	err := r.client.Update(ctx, role, client.FieldOwner(fieldManager))
	if err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("writing the rules of ClusterRole %s: %w", role.Name, err)
}
