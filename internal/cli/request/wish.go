package request

import (
	"crypto"
	"regexp"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/certificate/csr"

	"github.com/certplane/certplane/internal/pki"
)

// Wish is the certificate somebody wants.
type Wish struct {
	pki.Subject
	Signer string
	// Usages are DefaultUsages if empty.
	Usages []certificatesv1.KeyUsage
	// Expires is how long the certificate should live; zero leaves it to the signer.
	Expires time.Duration
}

// manifest returns the request object for a wish. Without a name it asks the
// server for one that begins like the subject's.
func (w Wish) manifest(name string, key crypto.Signer) (*certificatesv1.CertificateSigningRequest, error) {
	encoded, err := pki.NewRequest(w.Subject, key)
	if err != nil {
		return nil, err
	}
	out := &certificatesv1.CertificateSigningRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: certificatesv1.SchemeGroupVersion.String(), Kind: "CertificateSigningRequest"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    encoded,
			SignerName: w.Signer,
			Usages:     w.usages(key.Public()),
		},
	}
	if name == "" {
		out.GenerateName = generateName(w.firstName())
	}
	if w.Expires != 0 {
		out.Spec.ExpirationSeconds = csr.DurationToExpirationSeconds(w.Expires)
	}
	return out, nil
}

func (w Wish) usages(key crypto.PublicKey) []certificatesv1.KeyUsage {
	if len(w.Usages) > 0 {
		return w.Usages
	}
	return DefaultUsages(w.Signer, key, len(w.DNSNames)+len(w.IPAddresses) > 0)
}

// firstName is what a person would call the wish.
func (w Wish) firstName() string {
	names := append([]string{w.CommonName}, w.DNSNames...)
	names = append(names, w.EmailAddresses...)
	for _, ip := range w.IPAddresses {
		names = append(names, ip.String())
	}
	for _, uri := range w.URIs {
		names = append(names, uri.Host+uri.Path)
	}
	for _, name := range names {
		if name != "" {
			return name
		}
	}
	return ""
}

// maxGeneratedBase is how much of a generateName the server keeps.
const maxGeneratedBase = 58

// generateName makes a prefix that is easy to type and fit for every kind of
// object, though requests themselves could be named almost anything.
func generateName(subject string) string {
	base := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(subject), "-")
	base = strings.Trim(base, "-")
	if base == "" {
		base = "csr"
	}
	return strings.TrimRight(base[:min(len(base), maxGeneratedBase-1)], "-") + "-"
}
