package ca

import (
	"context"
	"errors"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/pki"
)

// The reasons of verdicts of CA issuers. A CA that has expired has the reason
// of all signers, signer.ReasonExpired.
const (
	ReasonSecretMissing     = "SecretMissing"
	ReasonSecretInvalidData = "SecretInvalidData"
	ReasonSecretGetError    = "SecretGetError"
	ReasonSigningError      = "SigningError"
)

// Open returns the CA in a Secret: tls.crt has its chain, the signing
// certificate first, and tls.key its key; the first certificate of ca.crt, if
// it exists, belongs to the chain too. name is the name of the Secret in
// errors; nil is a Secret that does not exist. It checks everything that would
// make the issued certificates impossible to verify, except expiry, which is
// checked when signing. The errors are verdicts on a request, which waits for a
// better Secret; for an issuer they are why it is not ready.
//
// It verifies at most some tens of signatures, for any content of the Secret.
// It takes up to a tenth of a second for CAs with constraints: callers that
// sign often should cache the results, including errors, as long as the Secret
// does not change.
func Open(name string, s *corev1.Secret) (*pki.Authority, error) {
	if s == nil {
		return nil, issuing.Pending(ReasonSecretMissing, fmt.Sprintf("Referenced secret %s not found", name), nil)
	}
	authority, err := open(s)
	if err != nil {
		return nil, issuing.Pending(ReasonSecretInvalidData, fmt.Sprintf("Failed to parse signing CA keypair from secret %s", name), err)
	}
	return authority, nil
}

func open(s *corev1.Secret) (*pki.Authority, error) {
	key, err := pki.ParsePrivateKey(s.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", corev1.TLSPrivateKeyKey, err)
	}
	if _, err := pki.SignatureAlgorithm(key.Public()); err != nil {
		return nil, fmt.Errorf("%s: %w", corev1.TLSPrivateKeyKey, err)
	}
	certs, err := pki.ParseChain(s.Data[corev1.TLSCertKey])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", corev1.TLSCertKey, err)
	}
	signing := certs[0]
	if data := s.Data[cmmeta.TLSCAKey]; len(data) > 0 {
		root, err := pki.ParseFirst(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", cmmeta.TLSCAKey, err)
		}
		certs = append(certs, root)
	}
	chain, err := pki.BuildChain(certs)
	if err == nil && !chain.Certificates[0].Equal(signing) && !pki.IsTwin(chain.Certificates[0], signing) {
		err = errors.New("the first certificate is not the lowest one of the chain")
	}
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", corev1.TLSCertKey, cmmeta.TLSCAKey, err)
	}
	return chain.Authority(key)
}

// Sign issues a certificate for a CA issuer with config, whose CA comes from
// Open. The certificate begins now and ends with the CA at the latest, unless
// the rules let it outlive the CA. A request that the CA must not sign (by its
// path length or its name constraints) never gets one.
func Sign(ctx context.Context, cfg issuing.Config, req issuing.Request, config *cmv1.CAIssuer, ca *pki.Authority, now time.Time) (*signer.Issued, error) {
	csr, err := req.Parse()
	if err != nil {
		return nil, issuing.Permanent(ReasonSigningError, "Error generating certificate template", err)
	}
	if err := req.CheckDuration(); err != nil {
		return nil, issuing.Permanent(ReasonSigningError, "Error signing certificate", err)
	}
	validity, err := req.Lifetime().Validity(nil, ca.Validity(), now)
	if err != nil {
		return nil, signer.Expired(err)
	}
	unbounded := req.Lifetime().Unbounded(nil, now)
	if cfg.Rules.OutliveCA {
		validity.NotAfter = unbounded.NotAfter
	}
	where := pki.Locations{
		CRLs: config.CRLDistributionPoints, OCSPServers: config.OCSPServers, IssuerCertificates: config.IssuingCertificateURLs,
	}
	template, err := req.Template(csr, ca.Certificate().PublicKey, validity, where, cfg.Issuing.Rand)
	if err != nil {
		return nil, issuing.Permanent(ReasonSigningError, "Error generating certificate template", err)
	}
	lint := ca.Lint
	if req.Terms.IsCA {
		lint = ca.LintCA
	}
	linted, err := lint(template, pki.Policy{MinRSABits: issuing.MinRSABits, OutlivesCA: cfg.Rules.OutliveCA, Rule: cfg.Rules.Honoured.Rule(ca)})
	if err != nil {
		return nil, issuing.Permanent(ReasonSigningError, "Error signing certificate", err)
	}
	cut := unbounded.NotAfter.Sub(validity.NotAfter)
	cert, err := linted.Sign(ctx, cfg.Issuing, req.Purpose())
	if err != nil {
		return nil, signer.Unavailable(err)
	}
	return &signer.Issued{
		Certificate: cert,
		PEM:         pki.EncodeCertificates(ca.Chain(cert)...),
		CA:          pki.EncodeCertificates(ca.Anchor()),
		ShortenedBy: cut,
		Warnings:    append(shortened(validity, cut), issuing.WarnNameless(cert)...),
	}, nil
}

func shortened(got pki.Validity, cut time.Duration) []signer.Warning {
	if cut <= 0 {
		return nil
	}
	return []signer.Warning{{Reason: issuing.WarningShortened, Message: fmt.Sprintf("The certificate ends with its CA on %s, %v earlier than requested: renew the CA",
		got.NotAfter.Format(time.RFC3339), cut)}}
}
