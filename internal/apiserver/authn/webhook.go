package authn

import (
	"fmt"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/webhook"
)

// open returns an authenticator that calls the webhook about tokens. It does
// not call the webhook yet.
func (w Webhook) open(audiences authenticator.Audiences) (authenticator.Token, error) {
	client, err := webhookutil.LoadKubeconfig(w.Kubeconfig, nil)
	if err != nil {
		return nil, fmt.Errorf("authentication.webhook.kubeconfig: %w", err)
	}
	tokens, err := webhook.New(client, w.Version, audiences, *webhook.DefaultRetryBackoff())
	if err != nil {
		return nil, fmt.Errorf("authentication.webhook: %w", err)
	}
	return cache.New(tokens, false, w.CacheTTL.Duration, w.CacheTTL.Duration), nil
}
