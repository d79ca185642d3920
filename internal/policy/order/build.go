// Package order decides about the Orders of ACME issuers: their content, their
// Challenges and their next step.
package order

import (
	"crypto/x509"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/request"
)

// AnnotationProfile, on a Certificate or a request, is the certificate profile
// that is ordered instead of the issuer's.
const AnnotationProfile = "acme.certplane.dev/profile"

// NameError means that the common name of a request is not among its other
// names.
type NameError struct {
	CommonName       string
	DNSNames, IPAddr []string
}

func (e *NameError) Error() string {
	return fmt.Sprintf("%q does not exist in %s or %s", e.CommonName, e.DNSNames, e.IPAddr)
}

// CheckNames returns a *NameError if the CA would not put the common name of a
// request into a certificate.
func CheckNames(csr *x509.CertificateRequest) error {
	name, addresses := csr.Subject.CommonName, texts(csr.IPAddresses)
	if name == "" || slices.Contains(csr.DNSNames, name) || slices.Contains(addresses, name) {
		return nil
	}
	return &NameError{name, csr.DNSNames, addresses}
}

// Build is the input of For in addition to the request.
type Build struct {
	// Issuer is the issuer that the request names.
	Issuer *acmev1.ACMEIssuer
	// Namespace is the namespace of the Order.
	Namespace string
	// Annotations are the annotations that the Order inherits from the request.
	Annotations map[string]string
	// Duration is the requested lifetime; nil leaves it to the CA.
	Duration *time.Duration
	// Replaces is the CertID of the certificate that is renewed, or "".
	Replaces string
}

// For returns the Order for a request, whose PKCS#10 request must be readable.
func For(req request.Request, b Build) (*acmev1.Order, error) {
	spec := acmev1.OrderSpec{
		Request: req.PEM, IssuerRef: req.Issuer.Reference(),
		CommonName: req.PKCS10.Subject.CommonName, DNSNames: req.PKCS10.DNSNames, IPAddresses: texts(req.PKCS10.IPAddresses),
		Profile: b.Issuer.Profile, Replaces: b.Replaces,
	}
	if profile := req.ObjectAnnotations[AnnotationProfile]; profile != "" {
		spec.Profile = profile
	}
	if b.Issuer.EnableDurationFeature && b.Duration != nil {
		spec.Duration = &metav1.Duration{Duration: *b.Duration}
	}
	name, err := Name(req.Kind, req.Name, spec)
	if err != nil {
		return nil, err
	}
	return &acmev1.Order{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.Namespace, Name: name, Labels: maps.Clone(req.Labels), Annotations: maps.Clone(b.Annotations),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(
				&metav1.ObjectMeta{Name: req.Name, UID: types.UID(req.UID)}, OwnerKind(req.Kind))},
		},
		Spec: spec,
	}, nil
}

// OwnerKind returns the kind of the requests that own Orders.
func OwnerKind(kind v1alpha1.RequestKind) schema.GroupVersionKind {
	if kind == v1alpha1.CertificateSigningRequests {
		return certificatesv1.SchemeGroupVersion.WithKind(string(kind))
	}
	return cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateRequestKind)
}

// IsOf reports whether an Order was made for the request with this UID.
func IsOf(o *acmev1.Order, requestUID string) bool {
	owner := metav1.GetControllerOf(o)
	return owner != nil && string(owner.UID) == requestUID
}

// IssuerOf returns the issuer of an object of a namespace that refers to it.
func IssuerOf(namespace string, ref cmmeta.IssuerReference) certmanager.Signer {
	of := certmanager.Signer{Kind: certmanager.IssuerKind(ref), Name: ref.Name}
	if of.Kind == cmv1.IssuerKind {
		of.Namespace = namespace
	}
	return of
}

// NewOrder returns what the CA is asked for: each name once, whatever its spelling.
func NewOrder(spec acmev1.OrderSpec, now time.Time) rfc8555.OrderRequest {
	var names, addresses []string
	for _, name := range spec.DNSNames {
		names = append(names, strings.ToLower(name))
	}
	for _, address := range spec.IPAddresses {
		if ip := net.ParseIP(address); ip != nil {
			address = ip.String()
		}
		addresses = append(addresses, address)
	}
	switch ip := net.ParseIP(spec.CommonName); {
	case ip != nil:
		addresses = append(addresses, ip.String())
	case isFullName(spec.CommonName):
		names = append(names, strings.ToLower(spec.CommonName))
	}
	asked := rfc8555.OrderRequest{Profile: spec.Profile, Replaces: spec.Replaces}
	for _, name := range sortedSet(names) {
		asked.Identifiers = append(asked.Identifiers, rfc8555.Identifier{Type: rfc8555.IdentifierDNS, Value: name})
	}
	for _, address := range sortedSet(addresses) {
		asked.Identifiers = append(asked.Identifiers, rfc8555.Identifier{Type: rfc8555.IdentifierIP, Value: address})
	}
	if spec.Duration != nil {
		asked.NotAfter = now.Add(spec.Duration.Duration)
	}
	return asked
}

// isFullName reports whether a common name is a DNS name of several labels.
func isFullName(name string) bool {
	plain := strings.ToLower(strings.TrimPrefix(name, "*."))
	return strings.Contains(plain, ".") && len(validation.IsDNS1123Subdomain(plain)) == 0
}

func sortedSet(values []string) []string {
	slices.Sort(values)
	return slices.Compact(values)
}

func texts(addresses []net.IP) []string {
	var all []string
	for _, ip := range addresses {
		all = append(all, ip.String())
	}
	return all
}
