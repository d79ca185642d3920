package pki

import "encoding/asn1"

// The extensions of RFC 5280 section 4.2.1 that are handled by their bytes.
var (
	OIDSubjectKeyID     = asn1.ObjectIdentifier{2, 5, 29, 14}
	OIDKeyUsage         = asn1.ObjectIdentifier{2, 5, 29, 15}
	OIDSubjectAltName   = asn1.ObjectIdentifier{2, 5, 29, 17}
	OIDBasicConstraints = asn1.ObjectIdentifier{2, 5, 29, 19}
	OIDNameConstraints  = asn1.ObjectIdentifier{2, 5, 29, 30}
	OIDExtKeyUsage      = asn1.ObjectIdentifier{2, 5, 29, 37}

	oidDistributionPoints = asn1.ObjectIdentifier{2, 5, 29, 31}
	oidNoRevAvail         = asn1.ObjectIdentifier{2, 5, 29, 56} // RFC 9608
)

// oidPodIdentity is the extension for a pod's identity (KEP-4317).
var oidPodIdentity = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 1}

// OIDCommonName is the attribute of a name that is called CN.
var OIDCommonName = asn1.ObjectIdentifier{2, 5, 4, 3}

var oidDomainComponent = attributeTypes["DC"]

// purpose is an identifier below id-kp of RFC 5280 section 4.2.1.12.
func purpose(arc int) asn1.ObjectIdentifier {
	return asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, arc}
}

// The purposes that are not below id-kp.
var (
	oidAnyPurpose   = asn1.ObjectIdentifier{2, 5, 29, 37, 0}
	oidMicrosoftSGC = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 10, 3, 3}
	oidNetscapeSGC  = asn1.ObjectIdentifier{2, 16, 840, 1, 113730, 4, 1}
)
