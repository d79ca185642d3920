package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
)

// Path checks an end-entity certificate from another signer and its CAs, each
// issued by the next, and returns them without the root, which the relying
// parties have. Of CAs with several certificates, one is kept. It verifies only
// the links.
func Path(certs []*x509.Certificate) ([]*x509.Certificate, error) {
	for i, cert := range certs {
		// Signatures of outsized keys take minutes to verify.
		if err := CheckPublicKey(cert.PublicKey, 0); err != nil {
			return nil, fmt.Errorf("certificate %d (%s): %w", i+1, describe(cert), err)
		}
	}
	switch {
	case len(certs) == 0:
		return nil, errors.New("no certificate")
	case isRoot(certs[0]):
		return nil, fmt.Errorf("certificate 1 (%s): is self-signed", describe(certs[0]))
	case len(certs) == 1:
		return certs, nil
	}
	if err := checkInOrder(certs[0], certs[1:]); err != nil {
		if path := pathFrom(certs); path != nil {
			return path, nil
		}
		return nil, err
	}
	return append([]*x509.Certificate{certs[0]}, withoutRoot(certs[1:])...), nil
}

func checkInOrder(leaf *x509.Certificate, issuers []*x509.Certificate) error {
	if err := checkLink(leaf, issuers[0]); err != nil {
		return fmt.Errorf("certificate 1 (%s): %w", describe(leaf), err)
	}
	if err := checkChain(issuers); err != nil {
		return fmt.Errorf("issuers: %w", err)
	}
	return nil
}

// pathFrom returns the path from the first certificate without the root; nil if
// there is none whose certificates are in the order of certs.
func pathFrom(certs []*x509.Certificate) []*x509.Certificate {
	built, err := BuildChain(certs)
	if err != nil || !built.Certificates[0].Equal(certs[0]) {
		return nil
	}
	whole := built.Whole()
	at := 0
	for _, cert := range certs {
		if at < len(whole) && cert == whole[at] {
			at++
		}
	}
	if at < len(whole) || len(whole) < 2 || checkLink(whole[0], whole[1]) != nil || checkChain(whole[1:]) != nil {
		return nil
	}
	return withoutRoot(whole)
}

// WithinUsages reports whether a certificate's key can be used for no more than
// usages. A missing key usage or extended key usage allows all of them, so it
// is valid only if none is requested (RFC 5280 sections 4.2.1.3 and 4.2.1.12).
func WithinUsages(cert *x509.Certificate, usages Usages) error {
	const ofCA = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	switch extra := cert.KeyUsage &^ usages.Key; {
	case usages.Key == 0 && extra&ofCA == 0:
		// A list of usages permits less than no list.
	case extra != 0:
		return errors.New("its key usage allows more than was requested")
	case cert.KeyUsage == 0:
		return errors.New("it has no key usage, which allows more than was requested")
	}
	return withinExtended(cert, usages.Extended)
}

func withinExtended(cert *x509.Certificate, asked []x509.ExtKeyUsage) error {
	allowed := make(map[x509.ExtKeyUsage]bool)
	for _, usage := range asked {
		allowed[usage] = true
	}
	switch {
	case len(asked) == 0 || allowed[x509.ExtKeyUsageAny]:
		return nil
	case len(cert.UnknownExtKeyUsage) > 0:
		return errors.New("it has an extended key usage that was not requested")
	case len(cert.ExtKeyUsage) == 0:
		return errors.New("it has no extended key usage, which allows more than was requested")
	}
	for _, usage := range cert.ExtKeyUsage {
		if !allowed[usage] {
			return errors.New("it has an extended key usage that was not requested")
		}
	}
	return nil
}
