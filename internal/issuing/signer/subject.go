package signer

import (
	"crypto/x509/pkix"
	"errors"

	apiasn1 "k8s.io/apimachinery/pkg/apis/asn1"

	"github.com/certplane/certplane/internal/pki"
)

// CheckSubject refuses subjects that contain more than the approver was shown.
// Certificates have the subject byte for byte as it was requested, so it must
// not contain what tools leave out when they show a request:
//
//   - of several common names Go and kubectl show the last one, and other
//     verifiers take the first;
//   - the attribute for a Kubernetes user's UID, which API servers believe, is
//     shown by none of them.
func CheckSubject(subject pkix.Name) error {
	var commonNames int
	for _, attribute := range subject.Names {
		switch {
		case attribute.Type.Equal(pki.OIDCommonName):
			commonNames++
		case attribute.Type.Equal(apiasn1.X509UID()):
			return errors.New("subject attribute 1.3.6.1.4.1.57683.2 (Kubernetes user UID) is not allowed")
		}
	}
	if commonNames > 1 {
		return errors.New("subject has more than one common name")
	}
	return nil
}
