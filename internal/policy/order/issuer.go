package order

import (
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// IssuerObstacle returns why Orders cannot be placed with their issuer, whatever
// its account; empty if they can. issuer is nil if it does not exist.
func IssuerObstacle(of certmanager.Signer, issuer cmv1.GenericIssuer) string {
	switch {
	case issuer == nil:
		return fmt.Sprintf("error reading (cluster)issuer %q: there is no such %s; the Order goes on once there is", of.Name, of.Kind)
	case issuer.GetSpec().ACME == nil:
		return fmt.Sprintf("the %s %q is not of the type acme", of.Kind, of.Name)
	}
	return ""
}
