package request

import (
	"crypto"
	"crypto/rsa"
	"crypto/x509"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/profile/readymade"
)

// DefaultUsages returns the usages to request when none are named: those that the
// well-known signers require. For any other signer they are a server's usages with a DNS
// name or an IP address, and a client's usages otherwise. Only RSA keys can encipher keys
// (RFC 8422 section 5.1 permits only signatures with ECDSA and EdDSA certificates).
func DefaultUsages(signer string, key crypto.PublicKey, namesHost bool) []certificatesv1.KeyUsage {
	usages := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature}
	if _, ok := key.(*rsa.PublicKey); ok {
		usages = append(usages, certificatesv1.UsageKeyEncipherment)
	}
	return append(usages, defaultPurpose(signer, namesHost))
}

func defaultPurpose(signer string, namesHost bool) certificatesv1.KeyUsage {
	switch signer {
	case certificatesv1.KubeAPIServerClientSignerName, certificatesv1.KubeAPIServerClientKubeletSignerName:
		return certificatesv1.UsageClientAuth
	case certificatesv1.KubeletServingSignerName, readymade.ServerSignerName:
		return certificatesv1.UsageServerAuth
	}
	if namesHost {
		return certificatesv1.UsageServerAuth
	}
	return certificatesv1.UsageClientAuth
}

// distinctUsages are all usages of the API except synonyms ("signing", "s/mime").
var distinctUsages = []certificatesv1.KeyUsage{
	certificatesv1.UsageDigitalSignature,
	certificatesv1.UsageContentCommitment,
	certificatesv1.UsageKeyEncipherment,
	certificatesv1.UsageKeyAgreement,
	certificatesv1.UsageDataEncipherment,
	certificatesv1.UsageCertSign,
	certificatesv1.UsageCRLSign,
	certificatesv1.UsageEncipherOnly,
	certificatesv1.UsageDecipherOnly,
	certificatesv1.UsageAny,
	certificatesv1.UsageServerAuth,
	certificatesv1.UsageClientAuth,
	certificatesv1.UsageCodeSigning,
	certificatesv1.UsageEmailProtection,
	certificatesv1.UsageIPsecEndSystem,
	certificatesv1.UsageIPsecTunnel,
	certificatesv1.UsageIPsecUser,
	certificatesv1.UsageTimestamping,
	certificatesv1.UsageOCSPSigning,
	certificatesv1.UsageMicrosoftSGC,
	certificatesv1.UsageNetscapeSGC,
}

// missingUsages returns the usages in requested that a certificate does not have.
func missingUsages(requested []certificatesv1.KeyUsage, cert *x509.Certificate) []certificatesv1.KeyUsage {
	have := pki.UsagesOf(cert)
	return slices.DeleteFunc(slices.Clone(requested), func(u certificatesv1.KeyUsage) bool { return includes(have, u) })
}

// extraUsages returns the usages of a certificate that are not in requested.
func extraUsages(requested []certificatesv1.KeyUsage, cert *x509.Certificate) []certificatesv1.KeyUsage {
	have := pki.UsagesOf(cert)
	wanted, err := pki.ParseUsages(requested)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(distinctUsages), func(u certificatesv1.KeyUsage) bool {
		return !includes(have, u) || includes(wanted, u)
	})
}

// includes reports whether usages has the named usage. It returns false for
// unknown names.
func includes(usages pki.Usages, name certificatesv1.KeyUsage) bool {
	one, err := pki.ParseUsages([]certificatesv1.KeyUsage{name})
	if err != nil || usages.Key&one.Key != one.Key {
		return false
	}
	return !slices.ContainsFunc(one.Extended, func(e x509.ExtKeyUsage) bool { return !slices.Contains(usages.Extended, e) })
}
