package dns

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/acme/solver"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// solverNames are the names, in the reserved group of webhooks, of the types
// that cert-manager does not have.
var solverNames = map[acmev1.ACMEChallengeType]string{
	certmanager.TypeDNSAccount01: rfc8555.ChallengeDNSAccount01,
	certmanager.TypeDNSPersist01: rfc8555.ChallengeDNSPersist01,
}

// plan describes the record for a challenge.
type plan struct {
	kind acmev1.ACMEChallengeType
	// spec has the provider; nil for dns-persist-01.
	spec *Spec
	// name is where the CA begins to look, with a final dot.
	name string
	// account is the URL of the account, for the types that need it.
	account string
}

// follow reports whether the record is written where CNAMEs lead to.
func (p plan) follow() bool { return p.spec != nil && p.spec.CNAMEStrategy == acmev1.FollowStrategy }

// newPlan reads a challenge. The gates are those of s.
func newPlan(task solver.Task, s Settings) (plan, error) {
	challenge := task.Challenge
	p := plan{kind: challenge.Spec.Type, spec: challenge.Spec.Solver.DNS01, account: accountURL(task.Issuer)}
	if p.spec == nil {
		return plan{}, errors.New("no dns01 challenge solver configuration found")
	}
	if err := p.useReserved(s); err != nil {
		return plan{}, err
	}
	if p.name = rfc8555.RecordName(certmanager.ProtocolType(p.kind), challenge.Spec.DNSName, p.account); p.name == "" {
		return plan{}, fmt.Errorf("challenges of type %s are not solved by DNS records", p.kind)
	}
	return p, nil
}

// useReserved replaces the spec by that in the configuration of a solver of the
// reserved group.
func (p *plan) useReserved(s Settings) error {
	named := p.spec.Webhook
	if reserved := named != nil && named.GroupName == certmanager.ReservedGroup; !reserved {
		if want := solverNames[p.kind]; want != "" {
			return fmt.Errorf("challenges of type %s need a solver with webhook.groupName %s and webhook.solverName %s", p.kind, certmanager.ReservedGroup, want)
		}
		return nil
	}
	if named.SolverName != solverNames[p.kind] {
		return fmt.Errorf("the solver %q of group %s is not for challenges of type %s", named.SolverName, certmanager.ReservedGroup, p.kind)
	}
	switch {
	case p.kind == certmanager.TypeDNSAccount01 && !s.DNSAccount01:
		return errors.New("dns-account-01 is not enabled: set acme.dns01.dnsAccount01")
	case p.kind == certmanager.TypeDNSPersist01 && !s.DNSPersist01:
		return errors.New("dns-persist-01 is not enabled: set acme.dns01.dnsPersist01")
	case p.account == "" && p.kind == certmanager.TypeDNSPersist01:
		return errNoAccount
	case p.kind == certmanager.TypeDNSPersist01:
		p.spec = nil
		return nil
	}
	inner, err := readInner(named)
	if err != nil {
		return err
	}
	if inner.CNAMEStrategy == "" {
		inner.CNAMEStrategy = p.spec.CNAMEStrategy
	}
	p.spec = inner
	return nil
}

var errNoAccount = errors.New("the issuer has no account URL yet")

// readInner reads the configuration of a solver of the reserved group. It has the form of
// the provider's configuration in dns01.
func readInner(named *acmev1.ACMEIssuerDNS01ProviderWebhook) (*Spec, error) {
	if named.Config == nil {
		return nil, fmt.Errorf("webhook.config: must name a provider, as dns01 does, for %s", named.SolverName)
	}
	decoder := json.NewDecoder(bytes.NewReader(named.Config.Raw))
	decoder.DisallowUnknownFields()
	inner := &Spec{}
	if err := decoder.Decode(inner); err != nil {
		return nil, fmt.Errorf("webhook.config: %w", err)
	}
	return inner, nil
}

// accountURL returns the URL of an issuer's account; empty before it has one.
func accountURL(issuer cmv1.GenericIssuer) string {
	if issuer == nil || issuer.GetStatus() == nil || issuer.GetStatus().ACME == nil {
		return ""
	}
	return issuer.GetStatus().ACME.URI
}
