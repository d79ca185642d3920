package wanted

import (
	"cmp"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"slices"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// RequestDifferences returns the fields of spec in which request differs. The
// order in lists does not matter. Durations are compared if both are set, and
// issuerRefs after their defaults are applied. nameConstraints,
// signatureAlgorithm and encodeUsagesInRequest are not compared: a change of
// these takes effect with the next renewal. It fails if the request cannot be
// parsed.
func RequestDifferences(spec *cmv1.CertificateSpec, request *cmv1.CertificateRequestSpec) ([]string, error) {
	csr, err := certmanager.ParseRequest(request.Request)
	if err != nil {
		return nil, fmt.Errorf("reading spec.request: %w", err)
	}
	return requestDifferences(spec, request, csr.CertificateRequest)
}

func requestDifferences(spec *cmv1.CertificateSpec, request *cmv1.CertificateRequestSpec, csr *x509.CertificateRequest) ([]string, error) {
	asked, err := namesOfRequest(csr)
	if err != nil {
		return nil, fmt.Errorf("reading spec.request: %w", err)
	}
	differences := append(subjectDifferences(spec, csr), namesOf(spec).differences(asked)...)
	for _, c := range requestComparisons {
		if !c.same(spec, request) {
			differences = append(differences, c.field)
		}
	}
	return differences, nil
}

// IsRepeated reports whether a new request would be the same as this one,
// except for the key itself. Unlike RequestDifferences it compares everything
// that can change an issuer's answer, such as the kind of key. It fails if one
// of the two cannot be parsed.
func IsRepeated(spec *cmv1.CertificateSpec, request *cmv1.CertificateRequestSpec) (bool, error) {
	csr, err := certmanager.ParseRequest(request.Request)
	if err != nil {
		return false, fmt.Errorf("reading spec.request: %w", err)
	}
	differences, err := requestDifferences(spec, request, csr.CertificateRequest)
	if err != nil || len(differences) > 0 {
		return false, err
	}
	content, err := content(spec)
	if err != nil {
		return false, err
	}
	said, err := content.IsSaidBy(csr.CertificateRequest)
	return said && len(KeyDifferences(spec, csr.PublicKey)) == 0 && ptr.Equal(spec.Duration, request.Duration), err
}

// requestComparisons compare the fields outside of the PKCS#10 request.
var requestComparisons = []struct {
	field string
	same  func(*cmv1.CertificateSpec, *cmv1.CertificateRequestSpec) bool
}{
	{"spec.isCA", func(s *cmv1.CertificateSpec, r *cmv1.CertificateRequestSpec) bool { return s.IsCA == r.IsCA }},
	{"spec.usages", func(s *cmv1.CertificateSpec, r *cmv1.CertificateRequestSpec) bool { return sameSet(s.Usages, r.Usages) }},
	{"spec.duration", sameDuration},
	{"spec.issuerRef", func(s *cmv1.CertificateSpec, r *cmv1.CertificateRequestSpec) bool {
		return certmanager.SameIssuer(s.IssuerRef, r.IssuerRef)
	}},
}

func sameDuration(s *cmv1.CertificateSpec, r *cmv1.CertificateRequestSpec) bool {
	return s.Duration == nil || r.Duration == nil || s.Duration.Duration == r.Duration.Duration
}

// CertificateDifferences returns the fields of spec that request other names than those of
// a certificate. It is for certificates whose request does not exist any more, and
// lenient: issuers may add the common name to the DNS names, and may omit a common name
// that is among the DNS names. The case of DNS names and common names does not matter: CAs
// change it. Subjects are not compared otherwise.
func CertificateDifferences(spec *cmv1.CertificateSpec, cert *x509.Certificate) []string {
	var differences []string
	wanted, got := namesOf(spec), namesOfCertificate(cert)
	commonName := commonNameOf(spec)
	isName := func(name string) bool { return strings.EqualFold(name, commonName) }
	if commonName != "" && !isName(cert.Subject.CommonName) && !slices.ContainsFunc(got.dns, isName) {
		differences = append(differences, "spec.commonName")
	}
	wanted.dns, got.dns = folded(withName(wanted.dns, commonName)), folded(withName(got.dns, cert.Subject.CommonName))
	wanted.others, got.others = nil, nil // the standard library does not show them
	return append(differences, wanted.differences(got)...)
}

// withName adds a name, if there is one, to names.
func withName(names []string, name string) []string {
	if name == "" {
		return names
	}
	return append(slices.Clone(names), name)
}

func folded(names []string) []string {
	var all []string
	for _, name := range names {
		all = append(all, strings.ToLower(name))
	}
	return all
}

func commonNameOf(spec *cmv1.CertificateSpec) string {
	sequence, err := sequence(spec)
	if err != nil {
		return "" // such a spec gets no certificate in any case
	}
	var name pkix.Name
	name.FillFromRDNSequence(&sequence)
	return name.CommonName
}

// sameSet reports whether two lists have the same elements, ignoring order and
// repetition.
func sameSet[T cmp.Ordered](a, b []T) bool {
	return slices.Equal(slices.Compact(slices.Sorted(slices.Values(a))), slices.Compact(slices.Sorted(slices.Values(b))))
}
