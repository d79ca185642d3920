package issuer

import (
	"errors"
	"time"
)

// verdict is an error that says what to do next.
type verdict struct {
	error
	kind  verdictKind
	after time.Duration
}

type verdictKind int

const (
	permanent verdictKind = iota
	invalid
	pending
	notReady
)

func (v *verdict) Unwrap() error { return v.error }

// verdictOf returns the outermost verdict in err; nil if there is none.
func verdictOf(err error) *verdict {
	var v *verdict
	if errors.As(err, &v) {
		return v
	}
	return nil
}

// Permanent says that trying again is no use. From Sign: the request becomes
// Ready=False with the reason Failed and a failureTime; a
// CertificateSigningRequest gets the condition Failed. From Check: the issuer is
// not ready, with the reason Failed, and is not checked again until its spec
// changes. err must not be nil.
func Permanent(err error) error { return &verdict{error: err, kind: permanent} }

// Invalid says that no issuer can ever sign this request, because of what it
// asks for. It is Permanent, and a CertificateRequest gets the condition
// InvalidRequest besides, with which the Certificate behind it fails at once.
// From Check it is Permanent. err must not be nil.
func Invalid(err error) error { return &verdict{error: err, kind: invalid} }

// Pending says that nothing is wrong and an answer needs time: an order that is
// being worked on, a person who has to agree. The call is made again after that
// time, without any limit; zero leaves the time to the back-off. The request
// stays Ready=False with the reason Pending. From Check: the issuer is not ready
// yet. err must not be nil.
func Pending(err error, retryAfter time.Duration) error {
	return &verdict{error: err, kind: pending, after: retryAfter}
}

// NotReady says from Sign that the issuer cannot sign for anybody: credentials
// that have expired, a CA that is down. The issuer becomes Ready=False; it is
// checked again after 5 seconds, and after twice as long each time that this
// happens again, up to 5 minutes. Its requests wait, however long that takes.
// From Check it is an error like any other. err must not be nil.
func NotReady(err error) error { return &verdict{error: err, kind: notReady} }
