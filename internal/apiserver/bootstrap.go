package apiserver

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/apiserver/authz/rbac/bootstrap"
)

// retryPause is the time between two attempts of a step at start.
const retryPause = time.Second

// addBootstrap makes server create the objects that must exist before it is
// ready.
func addBootstrap(server *genericapiserver.GenericAPIServer, client kubernetes.Interface, cfg Config) error {
	bindNodes := func(ctx context.Context, client kubernetes.Interface) error {
		return bootstrap.ReconcileNodes(ctx, client, cfg.Authentication.Bootstrap.Nodes)
	}
	bindDelegated := func(ctx context.Context, client kubernetes.Interface) error {
		return bootstrap.ReconcileDelegated(ctx, client, cfg.DelegatedSigners)
	}
	namespaces := func(ctx context.Context, client kubernetes.Interface) error {
		return makeNamespaces(ctx, client, cfg.Namespaces...)
	}
	trackTokens := func(ctx context.Context, client kubernetes.Interface) error {
		return trackTokens(ctx, client, cfg.Clock.Now())
	}
	for name, step := range map[string]func(context.Context, kubernetes.Interface) error{
		"rbac/bootstrap-roles":             bootstrap.Reconcile,
		"rbac/bootstrap-nodes":             bindNodes,
		"rbac/bootstrap-delegated-signers": bindDelegated,
		"bootstrap-namespaces":             namespaces,
		"legacy-token-tracking":            afterNamespaces(trackTokens),
	} {
		err := server.AddPostStartHook(name, func(hook genericapiserver.PostStartHookContext) error {
			untilDone(hook, name, func(ctx context.Context) error { return step(ctx, client) })
			return nil // the library ends the process when a hook fails
		})
		if err != nil {
			return fmt.Errorf("adding the start hook %s: %w", name, err)
		}
	}
	return nil
}

// afterNamespaces makes a step create the namespaces of its objects itself
// instead of waiting for them.
func afterNamespaces(step func(context.Context, kubernetes.Interface) error) func(context.Context, kubernetes.Interface) error {
	return func(ctx context.Context, client kubernetes.Interface) error {
		if err := makeNamespaces(ctx, client); err != nil {
			return err
		}
		return step(ctx, client)
	}
}

// untilDone tries a step until it succeeds or ctx ends.
func untilDone(ctx context.Context, name string, step func(context.Context) error) {
	_ = wait.PollUntilContextCancel(ctx, retryPause, true, func(ctx context.Context) (bool, error) {
		err := step(ctx)
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "A step of the start failed and will be tried again", "step", name)
		}
		return err == nil, nil
	})
}
