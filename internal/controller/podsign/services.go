package podsign

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	expiring "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/policy/profile"
	"github.com/certplane/certplane/internal/policy/request"
)

// services returns the Services that select a pod and that its service account
// may claim, sorted by name.
func (r *reconciler) services(ctx context.Context, facts request.Request) ([]request.ServiceName, error) {
	list := &corev1.ServiceList{}
	if err := r.objects.List(ctx, list, client.InNamespace(facts.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing services: %w", err)
	}
	var claimed []request.ServiceName
	for i := range list.Items {
		service := &list.Items[i]
		if !profile.Selects(service, facts.Pod) {
			continue
		}
		allowed, err := r.claims.allowed(ctx, facts.Requester, service)
		if err != nil {
			return nil, err
		}
		if allowed {
			claimed = append(claimed, request.ServiceName{Name: service.Name, Namespace: service.Namespace})
		}
	}
	slices.SortFunc(claimed, func(a, b request.ServiceName) int { return cmp.Compare(a.Name, b.Name) })
	return claimed, nil
}

// How long the answers about what a service account may claim are cached. A
// right that has just been granted should not have to be waited for.
const (
	rememberAllowed = 10 * time.Second
	rememberDenied  = 2 * time.Second
	maxRemembered   = 4096
)

// claims caches which users may claim which services: verb claim, resource
// services. It is safe for concurrent use.
type claims struct {
	client     client.Client
	remembered *expiring.LRUExpireCache
}

func newClaims(c client.Client, now clock.PassiveClock) *claims {
	return &claims{client: c, remembered: expiring.NewLRUExpireCacheWithClock(maxRemembered, now)}
}

// claim is a question whose answer is cached.
type claim struct{ username, namespace, service string }

func (c *claims) allowed(ctx context.Context, who request.Requester, service *corev1.Service) (bool, error) {
	question := claim{who.Username, service.Namespace, service.Name}
	if answer, ok := c.remembered.Get(question); ok {
		return answer.(bool), nil
	}
	review := &authorizationv1.SubjectAccessReview{Spec: profile.Claim(who, service)}
	if err := c.client.Create(ctx, review); err != nil {
		return false, fmt.Errorf("asking whether %s may claim the service %s: %w", who.Username, service.Name, err)
	}
	remember := rememberDenied
	if review.Status.Allowed {
		remember = rememberAllowed
	}
	c.remembered.Add(question, review.Status.Allowed, remember)
	return review.Status.Allowed, nil
}
