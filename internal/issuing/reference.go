package issuing

import (
	"fmt"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/signer"
)

// ReasonDeniedReference is the reason if the requester may not refer to the
// Issuer.
const ReasonDeniedReference = "DeniedReference"

// DeniedReference returns the verdict on a request whose requester may not
// refer to its Issuer.
func DeniedReference(username string, who certmanager.Signer) error {
	return signer.Permanent(ReasonDeniedReference, fmt.Errorf(
		"user %q may not refer to the Issuer %q in namespace %q: grant the verb reference on signers.%s named %q there",
		username, who.Name, who.Namespace, certmanager.Group, who.Name))
}
