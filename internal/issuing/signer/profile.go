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
	"github.com/certplane/certplane/internal/pki/kubelet"
	"github.com/certplane/certplane/internal/policy/request"
)

// LegacyUnknown is the signer of requests from before signers had names. No
// API accepts new requests for it; a store can still hold old ones.
const LegacyUnknown = "kubernetes.io/legacy-unknown"

// Profile is the contract of one signer with its relying parties: which
// requests it answers, and the form of its certificates.
type Profile struct {
	// SignerName is the name in spec.signerName.
	SignerName string
	// Check is the signer's own check of a request and its usages. Its errors
	// are shown to the requester.
	Check func(req *x509.CertificateRequest, usages []string) error
	// Policy contains the requirements of the linter beyond RFC 5280.
	Policy pki.Policy
	// Lifetime is how long certificates live. With replaces its Max.
	Lifetime pki.Lifetime
	// CheckStrictly, if not nil, is an additional check that an operator can
	// enable.
	CheckStrictly func(*x509.CertificateRequest) error
	// Alone leaves out the CAs above the certificate: relying parties have the
	// CA itself.
	Alone bool

	strict bool
}

// profiles are the signers that certplane implements. Their checks and the
// texts of these are Kubernetes' own.
var profiles = []Profile{
	{
		SignerName: certificatesv1.KubeAPIServerClientSignerName,
		Check:      checkAPIServerClient,
		Policy:     policy,
		Lifetime:   lifetime,
	},
	{
		SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
		Check:      kubelet.ValidateClient[string],
		Policy:     policy,
		Lifetime:   lifetime,

		CheckStrictly: kubelet.ValidateNodeName,
	},
	{
		SignerName: certificatesv1.KubeletServingSignerName,
		Check:      kubelet.ValidateServing[string],
		Policy:     policy,
		Lifetime:   lifetime,

		CheckStrictly: kubelet.ValidateNodeName,
	},
	{
		SignerName: LegacyUnknown,
		Check:      checkNothing,
		Policy:     policy,
		Lifetime:   lifetime,
	},
}

// policy permits the smallest RSA keys that the standard library's verifiers accept, for
// older clients.
var policy = pki.Policy{MinRSABits: 1024}

// lifetime is the rule of the Kubernetes signers (KEP-2784). Its Max is the default of
// Kubernetes, which explanations show for servers that they cannot ask. When a signer
// runs, Profile.With replaces Max with signing.maxDuration: change the limit in
// internal/controller/sign/settings.go.
var lifetime = pki.Lifetime{
	Max:      365 * 24 * time.Hour,
	Min:      10 * time.Minute,
	Backdate: 5 * time.Minute,
	Short:    8 * time.Hour,
}

// Lookup returns the profile of a signer by its name.
func Lookup(signerName string) (Profile, error) {
	for _, profile := range profiles {
		if profile.SignerName == signerName {
			return profile, nil
		}
	}
	return Profile{}, fmt.Errorf("unknown signer %q: the signers are %s", signerName, strings.Join(Names(), ", "))
}

// Names returns the names of all signers.
func Names() []string {
	var names []string
	for _, profile := range profiles {
		names = append(names, profile.SignerName)
	}
	return names
}

// Limits are the limits that operators can tighten in a profile.
type Limits struct {
	// MaxDuration is the upper limit for lifetimes. It is also the lifetime for
	// requests without a duration.
	MaxDuration time.Duration
	// MinRSABits is the size of the smallest RSA key that gets a certificate.
	MinRSABits int
	// Strict requires valid node names if the profile is for nodes.
	Strict bool
}

// With returns the profile with limits applied.
func (p Profile) With(limits Limits) Profile {
	p.Lifetime.Max = limits.MaxDuration
	p.Policy.MinRSABits = limits.MinRSABits
	p.strict = limits.Strict
	return p
}

// examine checks everything that depends only on the request, the cheap checks
// first.
func (p Profile) examine(req request.Request) (examined, error) {
	parsed, err := req.Parsed()
	if err != nil {
		return examined{}, Permanent(ReasonInvalidRequest, err)
	}
	if err := p.check(parsed.CertificateRequest, req.Usages); err != nil {
		return examined{}, Permanent(ReasonValidation, err)
	}
	usages, err := pki.ParseUsages(req.Usages)
	if err != nil {
		return examined{}, Permanent(ReasonValidation, err)
	}
	if err := pki.CheckPublicKey(parsed.PublicKey, p.Policy.MinRSABits); err != nil {
		return examined{}, Permanent(ReasonUnsupportedKey, err)
	}
	if err := pki.VerifyRequest(parsed.CertificateRequest); err != nil {
		return examined{}, Permanent(ReasonInvalidRequest, fmt.Errorf("verifying the certificate request's signature: %w", err))
	}
	return examined{profile: p, request: parsed, usages: usages}, nil
}

func (p Profile) check(req *x509.CertificateRequest, usages []string) error {
	if err := p.Check(req, usages); err != nil {
		return err
	}
	if p.strict && p.CheckStrictly != nil {
		if err := p.CheckStrictly(req); err != nil {
			return err
		}
	}
	if err := CheckPrivilege(req.Subject); err != nil {
		return err
	}
	return CheckSubject(req.Subject)
}

// checkAPIServerClient accepts any subject and any names: the approver is
// responsible for their meaning to the API server.
func checkAPIServerClient(_ *x509.CertificateRequest, usages []string) error {
	for _, usage := range usages {
		if !slices.Contains(apiServerClientUsages, usage) {
			return fmt.Errorf("invalid usage for client certificate: %s", usage)
		}
	}
	if !slices.Contains(usages, string(certificatesv1.UsageClientAuth)) {
		return errors.New("missing required usage for client certificate: client auth")
	}
	return nil
}

// checkNothing leaves all checks to the linter: such certificates guarantee
// nothing to relying parties.
func checkNothing(*x509.CertificateRequest, []string) error { return nil }

var apiServerClientUsages = []string{
	string(certificatesv1.UsageDigitalSignature), string(certificatesv1.UsageKeyEncipherment), string(certificatesv1.UsageClientAuth),
}
