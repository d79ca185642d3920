package dns

import (
	"context"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"

	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
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

// NewRow returns the row of a provider. block is its part of the spec, nil in the
// specs of other providers. The errors of open are shown as they are.
func NewRow[T any](field string, block func(*Spec) *T, open func(context.Context, provider.Env, *T) (provider.Provider, error)) Row {
	return Row{
		field: field,
		set:   func(spec *Spec) bool { return block(spec) != nil },
		open: func(ctx context.Context, env provider.Env, spec *Spec) (provider.Provider, error) {
			return open(ctx, env, block(spec))
		},
	}
}

// FindsZones returns r for a provider that does not use the zone of a record: the
// zone is then not looked up, which may fail.
func (r Row) FindsZones() Row {
	r.findsZones = true
	return r
}
