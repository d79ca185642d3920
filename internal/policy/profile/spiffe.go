package profile

import (
	"crypto/x509"

	"github.com/certplane/certplane/internal/pki/spiffe"
)

// checkSPIFFE checks a certificate with a SPIFFE ID against the X.509-SVID standard, which
// its verifiers apply: it has exactly one URI, which names a workload (section 2), and a
// key that signs and has no usage of a CA (section 4.3).
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
