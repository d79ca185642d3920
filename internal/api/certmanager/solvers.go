package certmanager

import (
	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

// ReservedGroup is the groupName of webhook solvers that are not webhooks, but solve types
// of challenges for which cert-manager.io has no field. The solverName is the name of the
// type in the ACME protocol.
const ReservedGroup = "acme.certplane.dev"

// PresentedAnnotation, on a Challenge, is the place of its presented answer, such as the
// name and zone of a DNS record.
const PresentedAnnotation = "acme.certplane.dev/presented"

// The types of Challenges that cert-manager does not have.
const (
	TypeTLSALPN01    acmev1.ACMEChallengeType = "TLS-ALPN-01"
	TypeDNSAccount01 acmev1.ACMEChallengeType = "DNS-ACCOUNT-01"
	TypeDNSPersist01 acmev1.ACMEChallengeType = "DNS-PERSIST-01"
)

// ChallengeTypes are the types of Challenges, by the names of the protocol.
var ChallengeTypes = map[string]acmev1.ACMEChallengeType{
	rfc8555.ChallengeHTTP01:       acmev1.ACMEChallengeTypeHTTP01,
	rfc8555.ChallengeDNS01:        acmev1.ACMEChallengeTypeDNS01,
	rfc8555.ChallengeTLSALPN01:    TypeTLSALPN01,
	rfc8555.ChallengeDNSAccount01: TypeDNSAccount01,
	rfc8555.ChallengeDNSPersist01: TypeDNSPersist01,
}

// ProtocolType returns the name of a type of Challenges in the protocol; empty
// for unknown ones.
func ProtocolType(kind acmev1.ACMEChallengeType) string {
	for name, known := range ChallengeTypes {
		if known == kind {
			return name
		}
	}
	return ""
}
