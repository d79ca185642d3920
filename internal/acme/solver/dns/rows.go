package dns

import (
	"cmp"
	"context"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
	"github.com/certplane/certplane/internal/api/certmanager"
)

// Spec is the configuration of a solver for DNS-01.
type Spec = acmev1.ACMEChallengeSolverDNS01

// Row is a DNS provider that solvers can name.
type Row struct {
	// field is its name in the spec.
	field string
	// findsZones is set if the provider does not use the zone of the record.
	findsZones bool
	set        func(*Spec) bool
	open       func(context.Context, provider.Env, *Spec) (provider.Provider, error)
}

// NewRow returns the row of a provider. block is its part of the spec, nil in the specs of
// other providers. The errors of open are shown unchanged.
func NewRow[T any](field string, block func(*Spec) *T, open func(context.Context, provider.Env, *T) (provider.Provider, error)) Row {
	return Row{
		field: field,
		set:   func(spec *Spec) bool { return block(spec) != nil },
		open: func(ctx context.Context, env provider.Env, spec *Spec) (provider.Provider, error) {
			return open(ctx, env, block(spec))
		},
	}
}

// NewGroupRow returns the row of a provider of certmanager.ProviderGroup. T is its
// config, by the table of package certmanager.
func NewGroupRow[T certmanager.ProviderConfig](name string, open func(context.Context, provider.Env, T) (provider.Provider, error)) Row {
	return Row{
		field: name,
		set: func(spec *Spec) bool {
			return certmanager.InProviderGroup(spec.Webhook) && spec.Webhook.SolverName == name
		},
		open: func(ctx context.Context, env provider.Env, spec *Spec) (provider.Provider, error) {
			config, err := readConfig(spec)
			own, ok := config.(T)
			if err != nil || !ok {
				return nil, cmp.Or(err, errUnsupported)
			}
			return open(ctx, env, own)
		},
	}
}

// readConfig reads the config of a provider of certmanager.ProviderGroup.
func readConfig(spec *Spec) (certmanager.ProviderConfig, error) {
	config, errs := certmanager.ReadProvider(spec.Webhook, field.NewPath("webhook"))
	return config, errs.ToAggregate()
}

// FindsZones returns r for a provider that does not use the zone of a record: the
// zone is then not looked up, which may fail.
func (r Row) FindsZones() Row {
	r.findsZones = true
	return r
}
