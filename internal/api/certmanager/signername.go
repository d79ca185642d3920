package certmanager

import (
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
)

// Domains of the signers that are issuers.
const (
	issuersDomain        = "issuers." + Group
	clusterIssuersDomain = "clusterissuers." + Group
)

// Signer is the issuer to which a CertificateSigningRequest refers.
type Signer struct {
	// Kind is Issuer or ClusterIssuer.
	Kind string
	// Namespace is the namespace of an Issuer.
	Namespace string
	Name      string
}

// ReferredSigner returns the signer that a CertificateRequest refers to.
func ReferredSigner(cr *cmv1.CertificateRequest) Signer {
	ref := cr.Spec.IssuerRef
	to := Signer{Kind: IssuerKind(ref), Name: ref.Name}
	if to.Kind == cmv1.IssuerKind {
		to.Namespace = cr.Namespace
	}
	return to
}

// SignerText returns the name of the signer that a CertificateRequest refers to, for
// people: that of ReferredSigner, or KIND.GROUP/NAME for issuers of other groups.
func SignerText(cr *cmv1.CertificateRequest) string {
	if ref := cr.Spec.IssuerRef; !IsBuiltIn(ref) {
		return IssuerKind(ref) + "." + IssuerGroup(ref) + "/" + ref.Name
	}
	return ReferredSigner(cr).String()
}

// ParseSignerName parses the signer's name of a CertificateSigningRequest:
//
//	issuers.cert-manager.io/<namespace>.<name>
//	clusterissuers.cert-manager.io/<name>
//
// Names may contain dots, namespaces must not. ok is false for all other names.
func ParseSignerName(signerName string) (signer Signer, ok bool) {
	domain, path, _ := strings.Cut(signerName, "/")
	if path == "" || strings.Contains(path, "/") {
		return Signer{}, false
	}
	switch domain {
	case issuersDomain:
		namespace, name, _ := strings.Cut(path, ".")
		return Signer{Kind: cmv1.IssuerKind, Namespace: namespace, Name: name}, namespace != "" && name != ""
	case clusterIssuersDomain:
		return Signer{Kind: cmv1.ClusterIssuerKind, Name: path}, true
	default:
		return Signer{}, false
	}
}

// SignerForm returns the form that a signer's name should have if it is in a
// domain of issuers and is not the name of one. It returns "" for all others.
func SignerForm(signerName string) string {
	if _, ok := ParseSignerName(signerName); ok {
		return ""
	}
	switch domain, _, _ := strings.Cut(signerName, "/"); domain {
	case issuersDomain:
		return issuersDomain + "/<namespace>.<name>"
	case clusterIssuersDomain:
		return clusterIssuersDomain + "/<name>"
	default:
		return ""
	}
}

// String returns the signer's name.
func (s Signer) String() string {
	if s.Kind == cmv1.ClusterIssuerKind {
		return clusterIssuersDomain + "/" + s.Name
	}
	return issuersDomain + "/" + s.Namespace + "." + s.Name
}
