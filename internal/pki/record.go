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
	// Kind, Namespace, Name and UID identify the request, or the object that the
	// program itself needs the certificate for; empty if there is none.
	Kind, Namespace, Name, UID string
	// Use is the purpose of a certificate of the program itself, such as "root of the client
	// CA"; empty if there is a request.
	Use string
	// Permit, if not nil, is called with the certificate before it is signed: all
	// of it but the signature is final. If it fails, nothing is signed.
	Permit func(*x509.Certificate) error
}

// Recorder is called with each certificate that a key has signed, and the
// purpose, before the certificate is used. If it fails, the certificate is
// discarded. It must be safe for concurrent use.
type Recorder func(ctx context.Context, cert *x509.Certificate, why Purpose) error

// Issuing contains what is needed to issue a certificate in addition to a CA and a template.
type Issuing struct {
	// Rand is the source of serial numbers.
	Rand io.Reader
	// Record is called with each certificate.
	Record Recorder
	// Refuse, if not nil, returns why a CA must not sign now, such as that it is revoked; nil
	// if it may. It must be safe for concurrent use.
	Refuse func(ca *x509.Certificate) error
	// Status is what the certificates tell about their revocation.
	Status StatusInfo
}

// For returns how certificates are made that have no request but one purpose.
func (i Issuing) For(ctx context.Context, why Purpose) Signing {
	return Signing{rand: i.Rand, status: i.Status, sign: func(l *Linted) (*x509.Certificate, error) { return l.Sign(ctx, i, why) }}
}

// Signing signs and records the certificates that the program makes for itself,
// for one purpose.
type Signing struct {
	rand   io.Reader
	status StatusInfo
	sign   func(*Linted) (*x509.Certificate, error)
}

// Unrecorded is for certificates that are not recorded: those of tests, and
// those of temporary CAs. The package archtest lists its users.
var Unrecorded = Issuing{
	Rand:   rand.Reader,
	Record: func(context.Context, *x509.Certificate, Purpose) error { return nil },
}

// UnrecordedSigning is Unrecorded for certificates without a request.
var UnrecordedSigning = Unrecorded.For(context.Background(), Purpose{})
