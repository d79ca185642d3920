package authz

import (
	"bytes"
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/load"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/plugin/pkg/authorizer/webhook"
	webhookmetrics "k8s.io/apiserver/plugin/pkg/authorizer/webhook/metrics"
)

// Settings is the stanza "authorization".
type Settings struct {
	// configFile is a file with an AuthorizationConfiguration of
	// apiserver.config.k8s.io/v1: the authorizers, in the order in which they are
	// called. Known types: Node (the rights that nodes need for their pods), RBAC
	// (roles and bindings) and Webhook (another program), each with conditions.
	// It is read again when it changes; an invalid change is logged, counted in
	// apiserver_authorization_config_controller_automatic_reloads_total and not
	// used. Members of system:masters may always do everything. Default: Node,
	// then RBAC. Without RBAC, a webhook must give this server's own controllers
	// their rights.
	ConfigFile string `json:"configFile,omitempty"`
}

// The authorizer types in addition to the library's Webhook.
const (
	typeNode apiserver.AuthorizerType = "Node"
	typeRBAC apiserver.AuthorizerType = "RBAC"
)

// parse returns the authorizers in the order in which they are called.
func parse(content []byte) ([]apiserver.AuthorizerConfiguration, error) {
	config, err := load.LoadFromReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	known := sets.New(string(typeNode), string(typeRBAC), string(apiserver.TypeWebhook))
	repeatable := sets.New(string(apiserver.TypeWebhook))
	errs := validation.ValidateAuthorizationConfiguration(authorizationcel.NewDefaultCompiler(), nil, config, known, repeatable)
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return config.Authorizers, nil
}

// newWebhook returns an authorizer that sends SubjectAccessReviews to another
// program.
func newWebhook(link apiserver.AuthorizerConfiguration) (authorizer.UnconditionalAuthorizer, error) {
	cfg := link.Webhook
	if cfg.ConnectionInfo.Type != apiserver.AuthorizationWebhookConnectionInfoTypeKubeConfigFile {
		return nil, fmt.Errorf("connectionInfo.type must be %s", apiserver.AuthorizationWebhookConnectionInfoTypeKubeConfigFile)
	}
	client, err := webhookutil.LoadKubeconfig(*cfg.ConnectionInfo.KubeConfigFile, nil)
	if err != nil {
		return nil, err
	}
	client.Timeout = cfg.Timeout.Duration
	onError := authorizer.DecisionNoOpinion
	if cfg.FailurePolicy == apiserver.FailurePolicyDeny {
		onError = authorizer.DecisionDeny
	}
	allowed, refused := cfg.AuthorizedTTL.Duration, cfg.UnauthorizedTTL.Duration
	if !cfg.CacheAuthorizedRequests {
		allowed = 0
	}
	if !cfg.CacheUnauthorizedRequests {
		refused = 0
	}
	return webhook.New(client, cfg.SubjectAccessReviewVersion, allowed, refused, *webhook.DefaultRetryBackoff(),
		onError, cfg.MatchConditions, link.Name, newWebhookMetrics(), authorizationcel.NewDefaultCompiler())
}

// webhookMetrics counts the answers of webhooks, by their names.
type webhookMetrics struct {
	webhookmetrics.NoopRequestMetrics
	webhookmetrics.WebhookMetrics
	authorizationcel.MatcherMetrics
}

func newWebhookMetrics() webhookmetrics.AuthorizerMetrics {
	return webhookMetrics{WebhookMetrics: webhookmetrics.NewWebhookMetrics(), MatcherMetrics: authorizationcel.NewMatcherMetrics()}
}
