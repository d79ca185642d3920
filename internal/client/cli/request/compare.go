package request

import (
	"bytes"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/pki"
)

// compare returns how a stored request differs from the wanted one, or "". The
// encoded requests cannot be compared as bytes: signatures are random.
func compare(stored, wanted *certificatesv1.CertificateSigningRequest) string {
	a, err := pki.ParseRequest(stored.Spec.Request)
	if err != nil {
		return "an unreadable request inside"
	}
	b, err := pki.ParseRequest(wanted.Spec.Request)
	if err != nil {
		return "an unreadable counterpart"
	}
	switch {
	case !pki.SameKey(a.PublicKey, b.PublicKey):
		return "another key"
	case stored.Spec.SignerName != wanted.Spec.SignerName:
		return "another signer, " + stored.Spec.SignerName
	case !bytes.Equal(a.RawSubject, b.RawSubject):
		return "another subject, " + a.Subject.String()
	case !slices.Equal(pki.RequestNames(a), pki.RequestNames(b)):
		return "other alternative names"
	case !sameUsages(stored.Spec.Usages, wanted.Spec.Usages):
		return "other usages"
	case !sameDuration(stored.Spec.ExpirationSeconds, wanted.Spec.ExpirationSeconds):
		return "another duration"
	}
	return ""
}

// sameUsages compares usages as sets: order and duplicates are ignored.
func sameUsages(a, b []certificatesv1.KeyUsage) bool {
	set := func(usages []certificatesv1.KeyUsage) []certificatesv1.KeyUsage {
		return slices.Compact(slices.Sorted(slices.Values(usages)))
	}
	return slices.Equal(set(a), set(b))
}

func sameDuration(a, b *int32) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
