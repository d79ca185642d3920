package admissionwebhook

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// decisionLifetime is how long an answer is cached: for an approver with many requests,
	// the API is called once for all of them.
	decisionLifetime = time.Second
	// maxDecisions limits the number of cached answers.
	maxDecisions = 1000
)

// accessReviews is the part of the API that is needed.
type accessReviews interface {
	Create(ctx context.Context, review *authorizationv1.SubjectAccessReview, opts metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error)
}

// approvers asks the API which users may approve, and do what else is checked.
// It is safe for concurrent use.
type approvers struct {
	reviews   accessReviews
	decisions *cache.LRUExpireCache // of bool, by the question
}

func newApprovers(reviews accessReviews, clock clock.PassiveClock) *approvers {
	return &approvers{reviews, cache.NewLRUExpireCacheWithClock(maxDecisions, clock)}
}

// authorize implements certmanager.Authorize. It does not cache failures.
func (a *approvers) authorize(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	question := authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra(user.Extra),
		ResourceAttributes: &what,
	}
	key, err := json.Marshal(question) // keys of maps are sorted
	if err != nil {
		return false, fmt.Errorf("encoding the question: %w", err)
	}
	if known, ok := a.decisions.Get(string(key)); ok {
		return known.(bool), nil
	}
	answered, err := a.reviews.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: question}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	status := answered.Status
	allowed := status.Allowed && !status.Denied
	if status.EvaluationError != "" && !allowed {
		// As in certplane's server, a broken rule is not an answer: another rule may still
		// allow the write.
		klog.FromContext(ctx).V(3).Info("The API could not evaluate all rules for a write", "user", user.Username, "verb", what.Verb, "resource", what.Resource, "name", what.Name, "err", status.EvaluationError)
		return false, nil
	}
	a.decisions.Add(string(key), allowed, decisionLifetime)
	return allowed, nil
}

func extra(values map[string]authenticationv1.ExtraValue) map[string]authorizationv1.ExtraValue {
	if len(values) == 0 {
		return nil
	}
	out := make(map[string]authorizationv1.ExtraValue, len(values))
	for key, value := range values {
		out[key] = authorizationv1.ExtraValue(value)
	}
	return out
}
