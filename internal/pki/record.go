package pki

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"io"
)

// Purpose says why a certificate is signed.
type Purpose struct {
	// Signer is the name of what signs: a signer, an issuer or a CA of the program.
	Signer string
	// Requester is the user who asks for the certificate; empty: the program.
	Requester string
	// Kind, Namespace, Name and UID are those of the request; empty if there is
	// none.
	Kind, Namespace, Name, UID string
}

// Recorder learns of each certificate that a key has signed, and why, before
// anything else does. If it fails, the certificate is thrown away. It must be safe
// for concurrent use.
type Recorder func(ctx context.Context, cert *x509.Certificate, why Purpose) error

// Issuing is what issuing takes besides a CA and a template.
type Issuing struct {
	// Rand is the source of serial numbers.
	Rand io.Reader
	// Record learns of all certificates.
	Record Recorder
}

// Unrecorded is for certificates that have no account: those of tests, and those
// under throwaway keys.
var Unrecorded = Issuing{
	Rand:   rand.Reader,
	Record: func(context.Context, *x509.Certificate, Purpose) error { return nil },
}
