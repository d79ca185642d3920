package pki

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"io"
)

// Purpose describes why a certificate is signed.
type Purpose struct {
	// Signer is the name of the signer, the issuer or the CA of the program
	// that signs.
	Signer string
	// Requester is the user who requests the certificate; empty means the
	// program itself.
	Requester string
	// Kind, Namespace, Name and UID identify the request; empty if there is
	// none.
	Kind, Namespace, Name, UID string
}

// Recorder is called with each certificate that a key has signed, and the
// purpose, before the certificate is used. If it fails, the certificate is
// discarded. It must be safe for concurrent use.
type Recorder func(ctx context.Context, cert *x509.Certificate, why Purpose) error

// Issuing has what is needed to issue a certificate besides a CA and a
// template.
type Issuing struct {
	// Rand is the source of serial numbers.
	Rand io.Reader
	// Record is called with each certificate.
	Record Recorder
}

// Unrecorded is for certificates that are not recorded: those of tests, and
// those of temporary CAs.
var Unrecorded = Issuing{
	Rand:   rand.Reader,
	Record: func(context.Context, *x509.Certificate, Purpose) error { return nil },
}
