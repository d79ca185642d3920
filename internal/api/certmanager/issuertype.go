package certmanager

import (
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
)

// IssuerType is the kind of CA that an Issuer or ClusterIssuer uses.
type IssuerType string

// The types, by the name of their field in the spec.
const (
	NoType         IssuerType = ""
	TypeACME       IssuerType = "acme"
	TypeCA         IssuerType = "ca"
	TypeVault      IssuerType = "vault"
	TypeSelfSigned IssuerType = "selfSigned"
	TypeVenafi     IssuerType = "venafi"
)

// TypeOf returns the type of an issuer; NoType if its spec has none. If several
// are set, which is possible only for an object stored before they were
// validated, the first counts.
func TypeOf(spec *cmv1.IssuerSpec) IssuerType {
	switch {
	case spec.ACME != nil:
		return TypeACME
	case spec.CA != nil:
		return TypeCA
	case spec.Vault != nil:
		return TypeVault
	case spec.SelfSigned != nil:
		return TypeSelfSigned
	case spec.Venafi != nil:
		return TypeVenafi
	default:
		return NoType
	}
}

// SecretNamespace returns the namespace of the Secrets to which an issuer
// refers: its own or, for a ClusterIssuer, the configured one.
func SecretNamespace(issuer cmv1.GenericIssuer, clusterResources string) string {
	if namespace := issuer.GetNamespace(); namespace != "" {
		return namespace
	}
	return clusterResources
}

// SignerOf returns the signer that stands for an issuer in
// CertificateSigningRequests and in the rights to approve them.
func SignerOf(issuer cmv1.GenericIssuer) Signer {
	kind := cmv1.IssuerKind
	if _, ok := issuer.(*cmv1.ClusterIssuer); ok {
		kind = cmv1.ClusterIssuerKind
	}
	return Signer{Kind: kind, Namespace: issuer.GetNamespace(), Name: issuer.GetName()}
}

// NewIssuer returns an empty object of the kind. It fails for kinds that are
// neither Issuer nor ClusterIssuer.
func NewIssuer(kind string) (cmv1.GenericIssuer, error) {
	switch kind {
	case cmv1.IssuerKind:
		return &cmv1.Issuer{}, nil
	case cmv1.ClusterIssuerKind:
		return &cmv1.ClusterIssuer{}, nil
	default:
		return nil, fmt.Errorf("kind %q is neither %s nor %s", kind, cmv1.IssuerKind, cmv1.ClusterIssuerKind)
	}
}
