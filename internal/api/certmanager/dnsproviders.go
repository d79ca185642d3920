package certmanager

import (
	"maps"
	"slices"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// ProviderGroup is the groupName of webhook solvers that are not webhooks but DNS
// providers in this program for which cert-manager.io has no field. The
// solverName is the name of the provider, and config holds its ProviderConfig.
const ProviderGroup = "dns.certplane.dev"

// ProviderConfig is the config of a DNS provider of ProviderGroup.
type ProviderConfig interface {
	// Secrets returns the entries of Secrets that the provider reads.
	Secrets() []*cmmeta.SecretKeySelector
	validate(path *field.Path) field.ErrorList
}

// providerConfigs return the empty config of each provider, by solverName.
var providerConfigs = map[string]func() ProviderConfig{
	"desec": func() ProviderConfig { return &DeSEC{} },
}

// GroupProviders returns the names of the providers of ProviderGroup.
func GroupProviders() []string { return slices.Sorted(maps.Keys(providerConfigs)) }

// DeSEC is the config of the provider "desec".
type DeSEC struct {
	Token cmmeta.SecretKeySelector `json:"tokenSecretRef"`
}

// Secrets implements ProviderConfig.
func (c *DeSEC) Secrets() []*cmmeta.SecretKeySelector {
	return []*cmmeta.SecretKeySelector{&c.Token}
}

func (c *DeSEC) validate(path *field.Path) field.ErrorList {
	return requiredKey(&c.Token, path.Child("tokenSecretRef"))
}

// InProviderGroup reports whether a webhook, which can be nil, is a provider of
// ProviderGroup.
func InProviderGroup(w *acmev1.ACMEIssuerDNS01ProviderWebhook) bool {
	return w != nil && w.GroupName == ProviderGroup
}

// ReadProvider returns the config of a webhook of ProviderGroup, which is nil if it
// cannot be read. The errors name fields below path, the webhook's. They do not
// quote the config: it may have the credentials that belong in a Secret.
func ReadProvider(w *acmev1.ACMEIssuerDNS01ProviderWebhook, path *field.Path) (ProviderConfig, field.ErrorList) {
	empty, known := providerConfigs[w.SolverName]
	if !known {
		return nil, field.ErrorList{field.NotSupported(path.Child("solverName"), w.SolverName, GroupProviders())}
	}
	path = path.Child("config")
	config, raw := empty(), []byte("{}")
	if w.Config != nil {
		raw = w.Config.Raw
	}
	strict, err := kjson.UnmarshalStrict(raw, config)
	if err != nil {
		strict = []error{err}
	}
	if len(strict) == 0 {
		return config, config.validate(path)
	}
	var errs field.ErrorList
	for _, err := range strict {
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, err.Error()))
	}
	return nil, errs
}

// ProviderSecrets returns the entries of Secrets that a webhook reads, if it is a
// provider of ProviderGroup.
func ProviderSecrets(w *acmev1.ACMEIssuerDNS01ProviderWebhook) []*cmmeta.SecretKeySelector {
	if !InProviderGroup(w) {
		return nil
	}
	config, _ := ReadProvider(w, field.NewPath("webhook"))
	if config == nil {
		return nil
	}
	return config.Secrets()
}
