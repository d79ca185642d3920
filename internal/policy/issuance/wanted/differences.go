package wanted

import (
	"cmp"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// RequestDifferences returns the fields of spec that request does not ask for.
// The order in lists does not matter. A duration counts if both have one, and
// issuerRef by what it means. Not compared are nameConstraints,
// signatureAlgorithm and encodeUsagesInRequest: who changes these sees it with
// the next renewal. It fails if the request cannot be read.
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

// IsRepeated reports whether a new request would ask for what this one did, but for
// the key itself. Unlike RequestDifferences it misses nothing that can make an
// issuer answer otherwise: the kind of key, for one. It fails if one of the two
// cannot be read.
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

// requestComparisons are those of the fields outside of the PKCS#10 request.
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

// CertificateDifferences returns the fields of spec that ask for a certificate
// of other names. It is for certificates whose request is gone, and forgiving:
// issuers may add the common name to the DNS names, and one that an issuer left
// out must be among these. Subjects are not compared otherwise.
func CertificateDifferences(spec *cmv1.CertificateSpec, cert *x509.Certificate) []string {
	var differences []string
	wanted, got := namesOf(spec), namesOfCertificate(cert)
	commonName := commonNameOf(spec)
	if commonName != "" && commonName != cert.Subject.CommonName && !slices.Contains(got.dns, commonName) {
		differences = append(differences, "spec.commonName")
	}
	wanted.dns, got.dns = withName(wanted.dns, commonName), withName(got.dns, cert.Subject.CommonName)
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

func commonNameOf(spec *cmv1.CertificateSpec) string {
	sequence, err := sequence(spec)
	if err != nil {
		return "" // such a spec gets no certificate, whatever it is compared with
	}
	var name pkix.Name
	name.FillFromRDNSequence(&sequence)
	return name.CommonName
}

// sameSet reports whether two lists have the same elements, however often.
func sameSet[T cmp.Ordered](a, b []T) bool {
	return slices.Equal(slices.Compact(slices.Sorted(slices.Values(a))), slices.Compact(slices.Sorted(slices.Values(b))))
}
