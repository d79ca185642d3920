package server

import (
	"context"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// readyPoll is how often a starting server looks whether it is ready.
const readyPoll = 20 * time.Millisecond

// waitReady waits until the API is ready and its authorizer has taken in the
// bootstrap roles of the account of cfg: a controller that starts before that
// is refused and falls into its back-off.
func waitReady(ctx context.Context, cfg *rest.Config) error {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("making the readiness client: %w", err)
	}
	err = wait.PollUntilContextTimeout(ctx, readyPoll, startTimeout, true, func(ctx context.Context) (bool, error) {
		return isReady(ctx, client) && mayWatch(ctx, client), nil
	})
	if ctx.Err() == nil && err != nil {
		return fmt.Errorf("waiting for the API to be ready: %w", err)
	}
	return ctx.Err()
}

// isReady asks as anybody would. Errors mean "not yet": the caller bounds how
// often it asks.
func isReady(ctx context.Context, client kubernetes.Interface) bool {
	return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil
}

func mayWatch(ctx context.Context, client kubernetes.Interface) bool {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "watch", Group: "certificates.k8s.io", Resource: "certificatesigningrequests",
		},
	}}
	answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	return err == nil && answer.Status.Allowed
}
