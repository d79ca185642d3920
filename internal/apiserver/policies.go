package apiserver

import (
	"fmt"
	"net/http"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"

	"github.com/certplane/certplane/internal/policies"
)

// PoliciesCheck is the name of the check in /readyz that fails until the
// certificate policies are known: before that, nothing is approved or signed.
const PoliciesCheck = "certificate-policies"

// KindsCheck is the name of the check in /readyz that fails until certplane's own kinds
// are served.
const KindsCheck = "own-kinds"

// addKindsCheck adds that check; served can be nil.
func addKindsCheck(server *genericapiserver.GenericAPIServer, served func() error) error {
	if served == nil {
		return nil
	}
	if err := server.AddReadyzChecks(healthz.NamedCheck(KindsCheck, func(*http.Request) error { return served() })); err != nil {
		return fmt.Errorf("adding the check of certplane's own kinds: %w", err)
	}
	return nil
}

func addPoliciesCheck(server *genericapiserver.GenericAPIServer, p *policies.Policies) error {
	if p == nil {
		return nil
	}
	check := healthz.NamedCheck(PoliciesCheck, func(*http.Request) error {
		_, err := p.Set()
		return err
	})
	if err := server.AddReadyzChecks(check); err != nil {
		return fmt.Errorf("adding the check of the certificate policies: %w", err)
	}
	return nil
}
