package profile

import (
	"crypto/x509"

	"github.com/certplane/certplane/internal/pki/spiffe"
)

// checkSPIFFE holds a certificate that names a SPIFFE ID to the X.509-SVID
// standard, by which its verifiers go: one URI and no other (section 2), of a
// workload, and a key that signs and nothing else that CAs do (section 4.3).
func (p *Profile) checkSPIFFE(cert *Certificate) *Refusal {
	for _, uri := range cert.URIs {
		if uri.Scheme != spiffe.Scheme {
			continue
		}
		if err := spiffe.CheckID(uri.String()); err != nil {
			return refuse(ReasonNames, p.at("names", "uris"), "%v", err)
		}
		if len(cert.URIs) > 1 {
			return refuse(ReasonNames, p.at("names", "uris"), "a certificate with a SPIFFE ID must not have other URIs (X.509-SVID, section 2)")
		}
		if cert.Usages.Key&x509.KeyUsageDigitalSignature == 0 {
			return refuse(ReasonUsages, p.at("usages"), `a certificate with a SPIFFE ID needs the usage "digital signature" (X.509-SVID, section 4.3)`)
		}
	}
	return nil
}
