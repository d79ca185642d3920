package requests

import (
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// References are the rights of which whoever names an Issuer in a
// CertificateSigningRequest needs one: there is one API of these for all
// namespaces, and without the right everybody could use the Issuers of every
// namespace. ClusterIssuers are for all.
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
