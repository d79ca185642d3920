package issuer

import (
	"errors"
	"time"
)

// verdict is an error that decides what happens next.
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

// Permanent reports that a retry cannot succeed. From Sign: the request becomes
// Ready=False with the reason Failed and a failureTime; a
// CertificateSigningRequest gets the condition Failed. From Check: the issuer
// is not ready, with the reason Failed, and is not checked again until its spec
// changes. err must not be nil.
func Permanent(err error) error { return &verdict{error: err, kind: permanent} }

// Invalid reports that no issuer can ever sign this request, because of its
// content. It is Permanent, and a CertificateRequest also gets the condition
// InvalidRequest, with which its Certificate fails at once. From Check it is
// Permanent. err must not be nil.
func Invalid(err error) error { return &verdict{error: err, kind: invalid} }

// Pending reports that nothing is wrong and the answer needs time: an order is
// being processed, or a person has to agree. The call is repeated after
// retryAfter, without any limit; zero leaves the time to the back-off. The
// request stays Ready=False with the reason Pending. From Check: the issuer is
// not ready yet. err must not be nil.
func Pending(err error, retryAfter time.Duration) error {
	return &verdict{error: err, kind: pending, after: retryAfter}
}

// NotReady reports, from Sign, that the issuer cannot sign any request: its
// credentials have expired, or the CA is down. The issuer becomes Ready=False;
// it is checked again after 5 seconds, and after twice as long each further
// time, up to 5 minutes. Its requests wait, however long that takes. From Check
// it is treated as any other error. err must not be nil.
func NotReady(err error) error { return &verdict{error: err, kind: notReady} }
