package incluster

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// editNamed puts the path of a challenge into the Ingress that its solver
// names.
func (s *Solver) editNamed(ctx context.Context, ch *acmev1.Challenge, service string) error {
	path := s.ingressPath(ch, service)
	return s.updateNamed(ctx, ch, func(rules []networkingv1.IngressRule) []networkingv1.IngressRule {
		return withPath(rules, hostOf(ch), path)
	})
}

// restoreNamed removes the path of a challenge from the Ingress that its solver
// names. If the Ingress is gone, so is the path.
func (s *Solver) restoreNamed(ctx context.Context, ch *acmev1.Challenge) error {
	return client.IgnoreNotFound(s.updateNamed(ctx, ch, func(rules []networkingv1.IngressRule) []networkingv1.IngressRule {
		return withoutPath(rules, pathOf(ch))
	}))
}

// updateNamed changes the rules of the Ingress that a challenge's solver names. It writes
// only the rules, and repeats the change after a conflict.
func (s *Solver) updateNamed(ctx context.Context, ch *acmev1.Challenge, change func([]networkingv1.IngressRule) []networkingv1.IngressRule) error {
	key := client.ObjectKey{Namespace: ch.Namespace, Name: ch.Spec.Solver.HTTP01.Ingress.Name}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		var ingress networkingv1.Ingress
		if err := s.client.Get(ctx, key, &ingress); err != nil {
			return fmt.Errorf("reading the Ingress %s that the solver names: %w", key.Name, err)
		}
		before := ingress.DeepCopy()
		ingress.Spec.Rules = change(ingress.Spec.Rules)
		if reflect.DeepEqual(before.Spec.Rules, ingress.Spec.Rules) {
			return nil
		}
		if err := s.client.Patch(ctx, &ingress, patchOf(before)); err != nil {
			return fmt.Errorf("updating the Ingress %s that the solver names: %w", key.Name, err)
		}
		return nil
	})
}

// patchOf returns a patch of the changes since before. The API refuses it if the object
// has changed otherwise.
func patchOf(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

// withPath returns rules in which a path leads to its Service: first in the rule of its
// host, or in a new rule. If the path exists, it keeps its position, as another challenge
// may have been inserted before it. It does not change a rule without paths, which sends a
// host to the default backend.
func withPath(rules []networkingv1.IngressRule, host string, path networkingv1.HTTPIngressPath) []networkingv1.IngressRule {
	ofHost := func(rule networkingv1.IngressRule) bool {
		return rule.HTTP != nil && strings.EqualFold(rule.Host, host)
	}
	i := slices.IndexFunc(rules, ofHost)
	if i < 0 {
		return append(rules, ruleFor(host, path))
	}
	paths := rules[i].HTTP.Paths
	if at := slices.IndexFunc(paths, samePath(path.Path)); at >= 0 {
		paths[at] = path
		return rules
	}
	rules[i].HTTP.Paths = slices.Insert(paths, 0, path)
	return rules
}

// withoutPath returns rules without a path, and without those rules that had
// nothing else.
func withoutPath(rules []networkingv1.IngressRule, path string) []networkingv1.IngressRule {
	return slices.DeleteFunc(rules, func(rule networkingv1.IngressRule) bool {
		if rule.HTTP == nil || !slices.ContainsFunc(rule.HTTP.Paths, samePath(path)) {
			return false
		}
		rule.HTTP.Paths = slices.DeleteFunc(rule.HTTP.Paths, samePath(path))
		return len(rule.HTTP.Paths) == 0
	})
}

func samePath(path string) func(networkingv1.HTTPIngressPath) bool {
	return func(p networkingv1.HTTPIngressPath) bool { return p.Path == path }
}
