package acmeserver

import (
	"context"
	"fmt"
	"net/http"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// Permissions are cached, refusals are not, so that a new right can be used at once.
const (
	permittedFor  = 10 * time.Second
	keptPermitted = 10000
)

// reviews asks the API what ServiceAccounts may do.
type reviews struct {
	api client.Client
	// requester is Config.Requester.
	requester string
	permitted *cache.LRUExpireCache
}

func newReviews(cfg Config) *reviews {
	return &reviews{cfg.Client, cfg.Requester, cache.NewLRUExpireCacheWithClock(keptPermitted, nowClock{cfg.Now})}
}

// question is an access check for a user.
type question struct {
	user string
	what authorizationv1.ResourceAttributes
}

// allows asks one question.
func (r *reviews) allows(ctx context.Context, q question, groups ...string) (bool, error) {
	key := fmt.Sprintf("%q %v", q.user, q.what)
	if _, known := r.permitted.Get(key); known {
		return true, nil
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: q.user, Groups: groups, ResourceAttributes: &q.what}}
	if err := r.api.Create(ctx, review); err != nil {
		return false, fmt.Errorf("asking what %s may do: %w", q.user, err)
	}
	allowed := review.Status.Allowed && !review.Status.Denied
	if allowed {
		r.permitted.Add(key, true, permittedFor)
	}
	return allowed, nil
}

// demand refuses what a ServiceAccount may not do.
func (r *reviews) demand(ctx context.Context, of v1alpha1.AcmeServiceAccount, what authorizationv1.ResourceAttributes) error {
	allowed, err := r.allows(ctx, question{serviceaccount.MakeUsername(of.Namespace, of.Name), what},
		append(serviceaccount.MakeGroupNames(of.Namespace), "system:authenticated")...)
	if err != nil || allowed {
		return err
	}
	name := what.Resource
	if what.Name != "" {
		name += " " + what.Name
	}
	return problem(http.StatusForbidden, rfc8555.ProblemUnauthorized, "the ServiceAccount %s/%s, as which the account acts, may not %s %s", of.Namespace, of.Name, what.Verb, name)
}

// demandUse refuses accounts of ServiceAccounts that may not use the endpoint.
func (r *reviews) demandUse(ctx context.Context, of v1alpha1.AcmeServiceAccount, endpoint string) error {
	return r.demand(ctx, of, acmeorder.OnEndpoint("use", endpoint))
}

// demandCreate refuses orders of ServiceAccounts that may not request what the
// profile needs.
func (r *reviews) demandCreate(ctx context.Context, of v1alpha1.AcmeServiceAccount, profile *v1alpha1.AcmeProfile) error {
	if profile.Issuer != nil {
		return r.demand(ctx, of, acmeorder.RequestOfIssuer(of.Namespace))
	}
	return r.demand(ctx, of, acmeorder.RequestOfSigner())
}

// demandTokens refuses accounts of ServiceAccounts for which this program may not create
// tokens.
func (r *reviews) demandTokens(ctx context.Context, of v1alpha1.AcmeServiceAccount) error {
	if r.requester == "" {
		return nil
	}
	allowed, err := r.allows(ctx, question{r.requester, acmeorder.ActAs(of.Namespace, of.Name)}, "system:authenticated")
	if err != nil || allowed {
		return err
	}
	return problem(http.StatusForbidden, rfc8555.ProblemUnauthorized, "the ACME server may not act as the ServiceAccount %s/%s: its namespace has to permit that", of.Namespace, of.Name)
}
