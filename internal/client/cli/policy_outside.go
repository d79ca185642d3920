package cli

import (
	"context"
	"crypto/ed25519"
	"fmt"

	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/client/cli/policy/facts"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/rights"
)

// outsideSource holds the flags with which a program outside of the server finds the data
// that the server publishes.
type outsideSource struct{ approvalKeys, namespace string }

func (s *outsideSource) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&s.approvalKeys, "approval-keys", "", "File with the public keys that verify approvals of people, in PEM. Default: the keys that the server publishes.")
	s.addNamespaceTo(flags)
}

func (s *outsideSource) addNamespaceTo(flags *pflag.FlagSet) {
	flags.StringVar(&s.namespace, "controllers-namespace", "", "Namespace of the accounts of certplane's controllers. Default: "+rights.ServeNamespace+", "+rights.ClusterNamespace+", and the namespaces of certplane's webhooks.")
}

// namespaces returns the namespaces in which the controllers of an API can run.
func (s *outsideSource) namespaces(ctx context.Context, api client.Reader) []string {
	if s.namespace != "" {
		return []string{s.namespace}
	}
	return policies.ControllerNamespaces(ctx, api)
}

// sealKeys returns the public keys that verify approvals. api is nil without a
// server.
func (s *outsideSource) sealKeys(ctx context.Context, api client.Reader) ([]ed25519.PublicKey, error) {
	if s.approvalKeys != "" {
		keys, err := facts.ReadSealKeys(s.approvalKeys)
		if err != nil {
			return nil, fmt.Errorf("--approval-keys: %w", err)
		}
		return keys, nil
	}
	if api == nil {
		return nil, fmt.Errorf("%w: give a file with the keys, --approval-keys FILE", policies.ErrNoSealKeys)
	}
	return policies.ReadSealKeys(ctx, api, s.namespaces(ctx, api))
}

// complete lets a finder read the data that api publishes; api is nil without a server.
func (s *outsideSource) complete(finder *facts.Finder, api client.Reader) {
	finder.SealKeys = func(ctx context.Context) ([]ed25519.PublicKey, error) { return s.sealKeys(ctx, api) }
	if api != nil {
		finder.Ledger = &policies.LedgerReader{
			API: api, Certain: s.namespace != "", Namespaces: func(ctx context.Context) []string { return s.namespaces(ctx, api) },
		}
	}
}
