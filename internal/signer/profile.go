package signer

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/pki"
)

// Profile is what one signer promises its relying parties: which requests it
// answers and what its certificates look like.
type Profile struct {
	// SignerName is the name in spec.signerName.
	SignerName string
	// Check is the signer's own examination of a request and its usages. Its
	// errors are shown to the requester.
	Check func(*x509.CertificateRequest, []certificatesv1.KeyUsage) error
	// Policy is what the linter demands beyond RFC 5280.
	Policy pki.Policy
	// Lifetime is how long certificates live.
	Lifetime pki.Lifetime
}

// profiles are the signers that certplane can be.
var profiles = []Profile{
	{
		SignerName: certificatesv1.KubeAPIServerClientSignerName,
		Check:      checkAPIServerClient,
		Policy:     pki.Policy{MinRSABits: minRSABits},
		Lifetime:   lifetime,
	},
}

// minRSABits is what the standard library's verifiers demand. Older clients
// have such keys; the linter can ask for more once they are gone.
const minRSABits = 1024

// lifetime is that of the Kubernetes signers (KEP-2784).
var lifetime = pki.Lifetime{
	Max:      365 * 24 * time.Hour,
	Min:      10 * time.Minute,
	Backdate: 5 * time.Minute,
	Short:    8 * time.Hour,
}

// Lookup returns the profile of a signer by its name.
func Lookup(signerName string) (Profile, error) {
	var known []string
	for _, profile := range profiles {
		if profile.SignerName == signerName {
			return profile, nil
		}
		known = append(known, profile.SignerName)
	}
	return Profile{}, fmt.Errorf("unknown signer %q: the signers are %s", signerName, strings.Join(known, ", "))
}

// WithMaxDuration returns the profile with a different upper limit for
// lifetimes, which is also the lifetime of requests that name none.
func (p Profile) WithMaxDuration(limit time.Duration) Profile {
	p.Lifetime.Max = limit
	return p
}

// examine reaches all verdicts that depend on the request alone, the cheap
// ones first.
func (p Profile) examine(req Request) (examined, error) {
	parsed, err := pki.ParseRequest(req.PEM)
	if err != nil {
		return examined{}, Permanent(ReasonInvalidRequest, fmt.Errorf("parsing the certificate request: %w", err))
	}
	if err := p.check(parsed, req.Usages); err != nil {
		return examined{}, Permanent(ReasonValidation, err)
	}
	usages, err := pki.ParseUsages(req.Usages)
	if err != nil {
		return examined{}, Permanent(ReasonValidation, err)
	}
	if err := pki.CheckPublicKey(parsed.PublicKey, p.Policy.MinRSABits); err != nil {
		return examined{}, Permanent(ReasonUnsupportedKey, err)
	}
	if err := pki.VerifyRequest(parsed); err != nil {
		return examined{}, Permanent(ReasonInvalidRequest, fmt.Errorf("verifying the certificate request's signature: %w", err))
	}
	return examined{profile: p, request: parsed, usages: usages, duration: req.Duration}, nil
}

func (p Profile) check(req *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	if err := p.Check(req, usages); err != nil {
		return err
	}
	return checkSubject(req.Subject)
}

// checkAPIServerClient lets any subject and any names pass: what they mean to
// the API server is the approver's business.
func checkAPIServerClient(_ *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	for _, usage := range usages {
		if !slices.Contains(apiServerClientUsages, usage) {
			return fmt.Errorf("invalid usage for client certificate: %s", usage)
		}
	}
	if !slices.Contains(usages, certificatesv1.UsageClientAuth) {
		return errors.New("missing required usage for client certificate: client auth")
	}
	return nil
}

var apiServerClientUsages = []certificatesv1.KeyUsage{
	certificatesv1.UsageDigitalSignature,
	certificatesv1.UsageKeyEncipherment,
	certificatesv1.UsageClientAuth,
}
