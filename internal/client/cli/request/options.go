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

// Options describe the requested certificate.
type Options struct {
	pki.Subject
	Signer string
	// Usages are the requested usages; if empty, those that the declared Signer permits,
	// or DefaultUsages.
	Usages []certificatesv1.KeyUsage
	// Expires is the requested lifetime; with zero, the signer decides.
	Expires time.Duration

	permitted []string // by the declared Signer
}

// manifest returns the request object. If name is empty, the server
// generates a name that begins like the subject's.
func (o Options) manifest(name string, key crypto.Signer) (*certificatesv1.CertificateSigningRequest, error) {
	encoded, err := pki.NewRequest(o.Subject, key)
	if err != nil {
		return nil, err
	}
	out := &certificatesv1.CertificateSigningRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: certificatesv1.SchemeGroupVersion.String(), Kind: "CertificateSigningRequest"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    encoded,
			SignerName: o.Signer,
			Usages:     o.usages(key.Public()),
		},
	}
	if name == "" {
		out.GenerateName = generateName(o.firstName())
	}
	if o.Expires != 0 {
		out.Spec.ExpirationSeconds = csr.DurationToExpirationSeconds(o.Expires)
	}
	return out, nil
}

func (o Options) usages(key crypto.PublicKey) []certificatesv1.KeyUsage {
	if len(o.Usages) > 0 {
		return o.Usages
	}
	if usages := usagesOf(o.permitted, key); len(usages) > 0 {
		return usages
	}
	return DefaultUsages(o.Signer, key, len(o.DNSNames)+len(o.IPAddresses) > 0)
}

// firstName returns the most significant name of the certificate.
func (o Options) firstName() string {
	names := append([]string{o.CommonName}, o.DNSNames...)
	names = append(names, o.EmailAddresses...)
	for _, ip := range o.IPAddresses {
		names = append(names, ip.String())
	}
	for _, uri := range o.URIs {
		names = append(names, uri.Host+uri.Path)
	}
	for _, name := range names {
		if name != "" {
			return name
		}
	}
	return ""
}

// maxGeneratedBase is the number of characters of a generateName that the server keeps.
const maxGeneratedBase = 58

// generateName returns a prefix that is easy to type and valid for every kind
// of object, although the API accepts almost any name for a request.
func generateName(subject string) string {
	base := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(subject), "-")
	base = strings.Trim(base, "-")
	if base == "" {
		base = "csr"
	}
	return strings.TrimRight(base[:min(len(base), maxGeneratedBase-1)], "-") + "-"
}
