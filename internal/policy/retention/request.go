package retention

import (
	"crypto/x509"
	"encoding/pem"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/pki"
)

// backdate is the longest time from notBefore to the signing of a certificate, in
// Kubernetes and here.
const backdate = 5 * time.Minute

// request is a request with its certificate, if that can be parsed.
type request struct {
	*csr
	cert *x509.Certificate
}

func newRequest(c *csr) request { return request{csr: c, cert: certificate(c.Status.Certificate)} }

// certificate returns the first certificate in the first PEM block, or nil.
func certificate(data []byte) *x509.Certificate {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil
	}
	certs, err := x509.ParseCertificates(block.Bytes)
	if err != nil || len(certs) == 0 {
		return nil
	}
	return certs[0]
}

func (r request) issued() bool { return len(r.Status.Certificate) != 0 }

func (r request) created() time.Time { return r.CreationTimestamp.Time }

// issuedSince returns the time of the approval of a request that has its
// certificate.
func (r request) issuedSince() time.Time {
	if !r.issued() {
		return time.Time{}
	}
	return r.conditionTime(certificatesv1.CertificateApproved)
}

// unissuedSince returns the time of the approval of a request that has no
// certificate yet.
func (r request) unissuedSince() time.Time {
	if r.issued() {
		return time.Time{}
	}
	return r.conditionTime(certificatesv1.CertificateApproved)
}

func (r request) deniedSince() time.Time { return r.conditionTime(certificatesv1.CertificateDenied) }

func (r request) failedSince() time.Time { return r.conditionTime(certificatesv1.CertificateFailed) }

func (r request) pendingSince() time.Time {
	if len(r.Status.Conditions) != 0 {
		return time.Time{}
	}
	return r.created()
}

// expiry returns the end of an approved request's certificate.
func (r request) expiry() time.Time {
	if r.cert == nil || !r.hasCondition(certificatesv1.CertificateApproved) {
		return time.Time{}
	}
	return r.cert.NotAfter
}

// latestSigning returns the latest time at which the certificate can have been
// signed; zero without a certificate, or if it begins in the future.
func (r request) latestSigning(now time.Time) time.Time {
	if r.cert == nil || r.cert.NotBefore.After(now) {
		return time.Time{}
	}
	return r.cert.NotBefore.Add(backdate)
}

// conditionTime returns when a condition was last updated; zero if the
// condition does not exist or has no time.
func (r request) conditionTime(kind certificatesv1.RequestConditionType) time.Time {
	var oldest time.Time
	for i := range r.Status.Conditions {
		if cond := &r.Status.Conditions[i]; cond.Type == kind {
			oldest = pki.Soonest(oldest, cond.LastUpdateTime.Time)
		}
	}
	return oldest
}

func (r request) hasCondition(kind certificatesv1.RequestConditionType) bool {
	return certificates.Condition(r.csr, kind) != nil
}
