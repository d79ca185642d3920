package webhookcert

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/internal/pki"
)

// configuration contains how the API server reaches one or more webhooks.
type configuration struct {
	kind     string
	object   client.Object
	webhooks []webhook
}

// webhook contains how the API server reaches one webhook.
type webhook struct {
	name       string
	client     admissionregistrationv1.WebhookClientConfig
	rules      []admissionregistrationv1.RuleWithOperations
	conditions []admissionregistrationv1.MatchCondition
}

// conditionName is the name of the condition under which a webhook is called.
const conditionName = "governed"

// isCalled reports whether the webhook is called as it should be.
func (w *webhook) isCalled(as Calls) bool {
	return len(w.rules) == len(as.Rules) && equality.Semantic.DeepEqual(w.rules, as.Rules) &&
		slices.Equal(w.conditions, []admissionregistrationv1.MatchCondition{{Name: conditionName, Expression: as.Condition}})
}

// configurations returns those of our configurations that exist. Others are
// created later, or the operator does without them.
func (r *reconciler) configurations(ctx context.Context) ([]configuration, error) {
	if r.Objects.Configuration == "" {
		return nil, nil
	}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{}
	both := []configuration{
		{kind: "ValidatingWebhookConfiguration", object: validating},
		{kind: "MutatingWebhookConfiguration", object: mutating},
	}
	var found []configuration
	for _, c := range both {
		err := r.Client.Get(ctx, client.ObjectKey{Name: r.Objects.Configuration}, c.object)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading the %s of the webhook: %w", c.kind, err)
		}
		if err == nil {
			c.webhooks = webhooks(c.object)
			found = append(found, c)
		}
	}
	return found, nil
}

// webhooks returns the webhooks of a configuration in its order, which is the
// order in which the API server calls them.
func webhooks(object client.Object) []webhook {
	var webhooks []webhook
	switch object := object.(type) {
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for _, w := range object.Webhooks {
			webhooks = append(webhooks, webhook{w.Name, w.ClientConfig, w.Rules, w.MatchConditions})
		}
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for _, w := range object.Webhooks {
			webhooks = append(webhooks, webhook{w.Name, w.ClientConfig, w.Rules, w.MatchConditions})
		}
	}
	return webhooks
}

// hosts returns the names under which the API server calls the webhook: that of
// its Service, its further hosts, and any URL that an operator has configured instead.
func (r *reconciler) hosts(ctx context.Context, configurations []configuration) []string {
	hosts := append([]string{serviceHost(r.Objects.Service, r.Objects.Namespace)}, r.Objects.Hosts...)
	for _, c := range configurations {
		for _, webhook := range c.webhooks {
			host := hostOf(webhook.client)
			if net.ParseIP(host) == nil && !pki.ValidDNSName(host) {
				log.FromContext(ctx).Info("A webhook is configured with an address for which no certificate can be issued", "webhook", webhook.name, "host", host)
				continue
			}
			hosts = append(hosts, host)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

func hostOf(config admissionregistrationv1.WebhookClientConfig) string {
	if service := config.Service; service != nil {
		return serviceHost(service.Name, service.Namespace)
	}
	if config.URL == nil {
		return ""
	}
	address, err := url.Parse(*config.URL)
	if err != nil {
		return ""
	}
	return address.Hostname()
}

// serviceHost is the name that the API server expects of a webhook behind a
// Service.
func serviceHost(name, namespace string) string { return name + "." + namespace + ".svc" }

// inject writes the bundle to the webhooks that have another one, and for what
// they are called.
func (r *reconciler) inject(ctx context.Context, configurations []configuration, bundle []byte) error {
	var calls map[string]Calls
	if r.Calls != nil {
		calls = r.Calls()
	}
	for _, c := range configurations {
		patch, err := c.patch(bundle, calls)
		if err != nil {
			return err
		}
		if patch == nil {
			continue
		}
		if err := r.Client.Patch(ctx, c.object, patch, manager); err != nil {
			return fmt.Errorf("writing the webhook's CA to the %s %s: %w", c.kind, c.object.GetName(), err)
		}
		log.FromContext(ctx).Info("Updated the webhook configuration: its CA and its rules", "kind", c.kind, "name", c.object.GetName())
	}
	return nil
}

// patch returns the patch that sets only the bundle and the calls that differ; nil if they
// are set everywhere. It applies only to the configuration as it was read: a webhook that
// was removed must not come back. It lists the webhooks in their order, since a strategic
// merge puts those that it lists into the order of the patch.
func (c configuration) patch(bundle []byte, calls map[string]Calls) (client.Patch, error) {
	var webhooks []any
	for _, webhook := range c.webhooks {
		changed := map[string]any{"name": webhook.name}
		if !bytes.Equal(webhook.client.CABundle, bundle) {
			changed["clientConfig"] = map[string]any{"caBundle": bundle}
		}
		if as, changes := calls[webhook.name]; changes && !webhook.isCalled(as) {
			changed["rules"] = as.Rules
			changed["matchConditions"] = []any{map[string]any{"name": conditionName, "expression": as.Condition}}
		}
		if len(changed) > 1 {
			webhooks = append(webhooks, changed)
		}
	}
	if len(webhooks) == 0 {
		return nil, nil
	}
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": c.object.GetResourceVersion()},
		"webhooks": webhooks,
	})
	return client.RawPatch(types.StrategicMergePatchType, data), err
}
