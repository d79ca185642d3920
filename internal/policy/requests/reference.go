package requests

import (
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// References returns alternative permissions: the requester needs one of them to name an
// Issuer in a CertificateSigningRequest. These requests have no namespace, and without
// such a permission every requester could use the Issuers of every namespace.
// ClusterIssuers are for every requester.
func References(who certmanager.Signer) []authorizationv1.ResourceAttributes {
	if who.Namespace == "" {
		return nil
	}
	var rights []authorizationv1.ResourceAttributes
	for _, name := range []string{who.Name, "*"} {
		rights = append(rights, authorizationv1.ResourceAttributes{
			Group: certmanager.Group, Version: "*", Resource: "signers", Verb: "reference", Namespace: who.Namespace, Name: name,
		})
	}
	return rights
}
