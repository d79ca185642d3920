package authn

import (
	"crypto/sha256"
	"crypto/x509"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
)

// maxRemembered bounds the memory for certificates of unknown users of a
// trusted CA.
const maxRemembered = 1024

// rememberedCertificates accepts client certificates as the library does, but
// verifies each only once. The library verifies a certificate with every
// request of its connection, which costs more than all other checks of a
// request together. The result is valid as long as the CAs do not change and no
// certificate of the chain expires. It is safe for concurrent use.
type rememberedCertificates struct {
	cas    x509request.VerifyOptionFunc
	prove  authenticator.Request
	now    func() time.Time
	mu     sync.RWMutex
	roots  *x509.CertPool // with which all of proven was verified
	proven map[fingerprint]provenCertificate
}

// fingerprint is the hash of all certificates that a client presents.
type fingerprint = [sha256.Size]byte

type provenCertificate struct {
	// identify returns the user of a certificate.
	identify authenticator.Request
	until    time.Time
}

func newRememberedCertificates(cas x509request.VerifyOptionFunc, now func() time.Time) *rememberedCertificates {
	return &rememberedCertificates{
		cas:    cas,
		prove:  x509request.NewDynamic(cas, x509request.CommonNameUserConversion),
		now:    now,
		proven: map[fingerprint]provenCertificate{},
	}
}

// AuthenticateRequest implements authenticator.Request.
func (r *rememberedCertificates) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	options, known := r.cas()
	if req.TLS == nil || len(req.TLS.PeerCertificates) == 0 || !known {
		return r.prove.AuthenticateRequest(req)
	}
	id := fingerprintOf(req.TLS.PeerCertificates)
	if proven, ok := r.recall(id, options.Roots); ok {
		return proven.identify.AuthenticateRequest(req)
	}
	response, ok, err := r.prove.AuthenticateRequest(req)
	if ok && err == nil {
		r.remember(id, options, req.TLS.PeerCertificates)
	}
	return response, ok, err
}

func fingerprintOf(presented []*x509.Certificate) fingerprint {
	if len(presented) == 1 {
		return sha256.Sum256(presented[0].Raw)
	}
	hash := sha256.New()
	for _, cert := range presented {
		hash.Write(cert.Raw) // DER encodes its own length
	}
	return fingerprint(hash.Sum(nil))
}

func (r *rememberedCertificates) recall(id fingerprint, roots *x509.CertPool) (provenCertificate, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	proven, ok := r.proven[id]
	return proven, ok && r.roots == roots && r.now().Before(proven.until)
}

// remember verifies a certificate again, to get its chain, and keeps the
// authenticator that identifies it: the library's, with the certificate itself
// as the only root. That authenticator still checks its validity and usages,
// and counts it in the metrics.
func (r *rememberedCertificates) remember(id fingerprint, options x509.VerifyOptions, presented []*x509.Certificate) {
	options.Intermediates = x509.NewCertPool()
	for _, intermediate := range presented[1:] {
		options.Intermediates.AddCert(intermediate)
	}
	chains, err := presented[0].Verify(options)
	if err != nil {
		return // it has just expired, or the CAs have just changed
	}
	trusted := options
	trusted.Roots = x509.NewCertPool()
	trusted.Roots.AddCert(presented[0])

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.roots != options.Roots || len(r.proven) >= maxRemembered {
		clear(r.proven)
		r.roots = options.Roots
	}
	r.proven[id] = provenCertificate{
		identify: x509request.New(trusted, x509request.CommonNameUserConversion),
		until:    firstEnd(chains[0]),
	}
}

// firstEnd returns when the first certificate of a chain expires.
func firstEnd(chain []*x509.Certificate) time.Time {
	end := chain[0].NotAfter
	for _, cert := range chain[1:] {
		if cert.NotAfter.Before(end) {
			end = cert.NotAfter
		}
	}
	return end
}
