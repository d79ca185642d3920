// Package oracle provides approver-policy for tests: its manager, its webhook and
// its controllers, which are internal packages.
//
// Its module path is inside approver-policy, because Go permits imports of
// internal packages by the path of the importer. The package has no logic to test.
package oracle

import (
	"context"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	approvermanager "github.com/cert-manager/approver-policy/pkg/approver/manager"
	_ "github.com/cert-manager/approver-policy/pkg/internal/approver/allowed"     // registers itself
	_ "github.com/cert-manager/approver-policy/pkg/internal/approver/constraints" // registers itself
	internalmanager "github.com/cert-manager/approver-policy/pkg/internal/approver/manager"
	"github.com/cert-manager/approver-policy/pkg/internal/controllers"
	"github.com/cert-manager/approver-policy/pkg/internal/webhook"
	"github.com/cert-manager/approver-policy/pkg/registry"
)

// Review returns the decision of approver-policy about a request.
func Review(ctx context.Context, c client.Client, cr *cmv1.CertificateRequest) (approvermanager.ReviewResponse, error) {
	return internalmanager.New(c, registry.Shared.Evaluators()).Review(ctx, cr)
}

// AddWebhook adds the validation of policies to the webhook server of m.
func AddWebhook(ctx context.Context, m manager.Manager) error {
	return webhook.Register(ctx, webhook.Options{Log: logr.Discard(), Manager: m, Webhooks: registry.Shared.Webhooks()})
}

// AddControllers adds the approver, and the controller that sets the status of
// policies, to m.
func AddControllers(ctx context.Context, m manager.Manager) error {
	return controllers.AddControllers(ctx, controllers.Options{
		Log: logr.Discard(), Manager: m, Evaluators: registry.Shared.Evaluators(), Reconcilers: registry.Shared.Reconcilers(),
	})
}
