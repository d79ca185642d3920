package issuer

import (
	"fmt"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/signer"
)

// ReasonDeniedReference is the reason if the requester may not refer to the
// Issuer.
const ReasonDeniedReference = "DeniedReference"

// NoKey returns the verdict of a SelfSigned issuer on a request that names no
// Secret with its key. annotation is the annotation that should name it.
func NoKey(annotation string) error {
	return signer.Permanent(ReasonMissingAnnotation, fmt.Errorf(
		"annotation %q is missing or empty: it must name the Secret with the private key of the request", annotation))
}

// DeniedReference returns the verdict on a request whose requester may not
// refer to its Issuer.
func DeniedReference(username string, who certmanager.Signer) error {
	return signer.Permanent(ReasonDeniedReference, fmt.Errorf(
		"user %q may not refer to the Issuer %q in namespace %q: grant the verb reference on signers.%s named %q there",
		username, who.Name, who.Namespace, certmanager.Group, who.Name))
}
