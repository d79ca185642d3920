package acmeorder

import (
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// OnEndpoint returns the right to a verb on an AcmeEndpoint, as a review asks for
// it.
func OnEndpoint(verb, name string) authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{Verb: verb, Group: v1alpha1.GroupName, Version: v1alpha1.GroupVersion.Version, Resource: "acmeendpoints", Name: name}
}

// ActAs returns the right to act as a ServiceAccount, by its tokens.
func ActAs(namespace, serviceAccount string) authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{Verb: "create", Version: "v1", Resource: "serviceaccounts", Subresource: "token", Namespace: namespace, Name: serviceAccount}
}

// RequestOfSigner returns the right to make the requests of orders that a signer
// answers.
func RequestOfSigner() authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{Verb: "create", Group: "certificates.k8s.io", Version: "v1", Resource: "certificatesigningrequests"}
}

// RequestOfIssuer returns the right to make those that an issuer answers.
func RequestOfIssuer(namespace string) authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{Verb: "create", Group: "cert-manager.io", Version: "v1", Resource: "certificaterequests", Namespace: namespace}
}
