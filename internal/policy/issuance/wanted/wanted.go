// Package wanted makes what a Certificate requests, and compares requests,
// certificates and keys with it.
//
// The two agree: a result of Request never has differences. Differences are the
// paths of fields in the Certificate, in the order of this package's tables, so
// that messages that list them are stable.
package wanted

import (
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
)

// Request returns the certificate request for spec in PEM, signed with key. It
// fails for a spec that cannot be expressed in a request; a retry does not
// help.
func Request(spec *cmv1.CertificateSpec, key crypto.Signer) ([]byte, error) {
	content, err := content(spec)
	if err != nil {
		return nil, err
	}
	return content.Request(key)
}

// Unsigned is Request for a key that is not made yet, without a signature.
func Unsigned(spec *cmv1.CertificateSpec) ([]byte, error) {
	content, err := content(spec)
	if err != nil {
		return nil, err
	}
	key, err := PlaceholderKey(spec)
	if err != nil {
		return nil, err
	}
	return content.Unsigned(key)
}

func content(spec *cmv1.CertificateSpec) (pki.Content, error) {
	subject, err := subject(spec)
	if err != nil {
		return pki.Content{}, err
	}
	names, err := altNames(spec)
	if err != nil {
		return pki.Content{}, err
	}
	usages, err := usages(spec)
	if err != nil {
		return pki.Content{}, err
	}
	constraints, err := constraints(spec.NameConstraints)
	if err != nil {
		return pki.Content{}, err
	}
	algorithm, err := signatureAlgorithm(spec.SignatureAlgorithm)
	return pki.Content{
		RawSubject: subject, Names: names, Usages: usages, Constraints: constraints, Algorithm: algorithm,
	}, err
}

// subject returns the DER of the subject.
func subject(spec *cmv1.CertificateSpec) ([]byte, error) {
	sequence, err := sequence(spec)
	if err != nil {
		return nil, err
	}
	der, err := pki.EncodeDN(sequence)
	if err != nil {
		return nil, fmt.Errorf("encoding the subject: %w", err)
	}
	return der, nil
}

// sequence returns the subject. A literal subject replaces all other fields.
func sequence(spec *cmv1.CertificateSpec) (pkix.RDNSequence, error) {
	if spec.LiteralSubject == "" {
		return name(spec).ToRDNSequence(), nil
	}
	sequence, err := pki.ParseDN(spec.LiteralSubject)
	if err != nil {
		return nil, fmt.Errorf("spec.literalSubject: %w", err)
	}
	return sequence, nil
}

func name(spec *cmv1.CertificateSpec) pkix.Name {
	s := subjectOf(spec)
	return pkix.Name{
		CommonName: spec.CommonName, SerialNumber: s.SerialNumber,
		Country: s.Countries, Organization: s.Organizations, OrganizationalUnit: s.OrganizationalUnits,
		Locality: s.Localities, Province: s.Provinces, StreetAddress: s.StreetAddresses, PostalCode: s.PostalCodes,
	}
}

func subjectOf(spec *cmv1.CertificateSpec) cmv1.X509Subject {
	if spec.Subject == nil {
		return cmv1.X509Subject{}
	}
	return *spec.Subject
}

func altNames(spec *cmv1.CertificateSpec) (pki.AltNames, error) {
	// A set: CAs that compare the names of a request with those of an order count them.
	names := pki.AltNames{DNSNames: once(spec.DNSNames, strings.EqualFold), EmailAddresses: once(spec.EmailAddresses, equal)}
	for _, text := range spec.IPAddresses {
		ip := net.ParseIP(text)
		if ip == nil {
			return pki.AltNames{}, fmt.Errorf("spec.ipAddresses: %q is not an IP address", text)
		}
		names.IPAddresses = append(names.IPAddresses, ip)
	}
	names.IPAddresses = once(names.IPAddresses, net.IP.Equal)
	for _, text := range once(spec.URIs, equal) {
		uri, err := url.Parse(text)
		if err != nil {
			return pki.AltNames{}, fmt.Errorf("spec.uris: %w", err)
		}
		names.URIs = append(names.URIs, uri)
	}
	for _, other := range spec.OtherNames {
		oid, err := pki.ParseOID(other.OID)
		if err != nil {
			return pki.AltNames{}, fmt.Errorf("spec.otherNames: %w", err)
		}
		names.OtherNames = append(names.OtherNames, pki.OtherName{Type: oid, Value: other.UTF8Value})
	}
	return names, nil
}

// once returns the values without those that are the same as an earlier one.
func once[T any](values []T, same func(T, T) bool) []T {
	var list []T
	for _, value := range values {
		if !slices.ContainsFunc(list, func(has T) bool { return same(has, value) }) {
			list = append(list, value)
		}
	}
	return list
}

func equal(a, b string) bool { return a == b }

// usages returns the usages for the request; nil if it lists none. The order of
// the extended ones is the Certificate's, as some issuers compare them one by
// one.
func usages(spec *cmv1.CertificateSpec) (*pki.Usages, error) {
	if spec.EncodeUsagesInRequest != nil && !*spec.EncodeUsagesInRequest {
		return nil, nil
	}
	usages, err := certmanager.Usages(spec.Usages, spec.IsCA)
	if err != nil {
		return nil, fmt.Errorf("spec.usages: %w", err)
	}
	ordered, err := pki.ParseUsagesInOrder(spec.Usages)
	if err != nil {
		return nil, fmt.Errorf("spec.usages: %w", err)
	}
	usages.Extended = ordered.Extended
	return &usages, nil
}

func constraints(c *cmv1.NameConstraints) (*pki.NameConstraints, error) {
	if c == nil {
		return nil, nil
	}
	permitted, err := nameTrees(c.Permitted)
	if err != nil {
		return nil, fmt.Errorf("spec.nameConstraints.permitted: %w", err)
	}
	excluded, err := nameTrees(c.Excluded)
	if err != nil {
		return nil, fmt.Errorf("spec.nameConstraints.excluded: %w", err)
	}
	return &pki.NameConstraints{Critical: c.Critical, Permitted: permitted, Excluded: excluded}, nil
}

func nameTrees(item *cmv1.NameConstraintItem) (pki.NameTrees, error) {
	if item == nil {
		return pki.NameTrees{}, nil
	}
	trees := pki.NameTrees{DNSDomains: item.DNSDomains, EmailAddresses: item.EmailAddresses, URIDomains: item.URIDomains}
	for _, text := range item.IPRanges {
		_, network, err := net.ParseCIDR(text)
		if err != nil {
			return pki.NameTrees{}, fmt.Errorf("ipRanges: %w", err)
		}
		trees.IPRanges = append(trees.IPRanges, network)
	}
	return trees, nil
}

var signatureAlgorithms = map[cmv1.SignatureAlgorithm]x509.SignatureAlgorithm{
	"":                   x509.UnknownSignatureAlgorithm, // whatever suits the key
	cmv1.SHA256WithRSA:   x509.SHA256WithRSA,
	cmv1.SHA384WithRSA:   x509.SHA384WithRSA,
	cmv1.SHA512WithRSA:   x509.SHA512WithRSA,
	cmv1.ECDSAWithSHA256: x509.ECDSAWithSHA256,
	cmv1.ECDSAWithSHA384: x509.ECDSAWithSHA384,
	cmv1.ECDSAWithSHA512: x509.ECDSAWithSHA512,
	cmv1.PureEd25519:     x509.PureEd25519,
}

func signatureAlgorithm(name cmv1.SignatureAlgorithm) (x509.SignatureAlgorithm, error) {
	algorithm, known := signatureAlgorithms[name]
	if !known {
		return 0, fmt.Errorf("spec.signatureAlgorithm: %q is not known", name)
	}
	return algorithm, nil
}
