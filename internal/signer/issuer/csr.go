package issuer

import (
	"fmt"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/signer"
)

// ReasonDeniedReference is that of requests to Issuers to which their requesters
// may not refer.
const ReasonDeniedReference = "DeniedReference"

// NoKey is the verdict of a SelfSigned issuer on a request that names no Secret
// with its key. annotation is where it should.
func NoKey(annotation string) error {
	return signer.Permanent(ReasonMissingAnnotation, fmt.Errorf(
		"annotation %q is missing or empty: it must name the Secret with the private key of the request", annotation))
}

// DeniedReference is the verdict on a request to an Issuer to which its
// requester may not refer.
func DeniedReference(username string, who certmanager.Signer) error {
	return signer.Permanent(ReasonDeniedReference, fmt.Errorf(
		"user %q may not refer to the Issuer %q in namespace %q: grant the verb reference on signers.%s named %q there",
		username, who.Name, who.Namespace, certmanager.Group, who.Name))
}
