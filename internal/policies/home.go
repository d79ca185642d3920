package policies

import (
	"context"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/rights"
)

// ControllerNamespaces returns the namespaces in which the controllers of an API keep
// their counts and public keys, for other programs: the default namespaces, and the
// namespaces of the webhooks that decide by policies, which only administrators can
// configure.
func ControllerNamespaces(ctx context.Context, api client.Reader) []string {
	all := []string{rights.ServeNamespace, rights.ClusterNamespace}
	var webhooks admissionv1.ValidatingWebhookConfigurationList
	if err := api.List(ctx, &webhooks); err != nil {
		return all // not all users may read them
	}
	for _, configuration := range webhooks.Items {
		for _, w := range configuration.Webhooks {
			if to := w.ClientConfig.Service; w.Name == ApprovalsWebhook && to != nil && !slices.Contains(all, to.Namespace) {
				all = append(all, to.Namespace)
			}
		}
	}
	return all
}
