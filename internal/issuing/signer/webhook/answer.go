package webhook

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"

	kjson "sigs.k8s.io/json"

	"github.com/certplane/certplane/api/signing/v1alpha1"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/pki"
)

const (
	// maxAnswer is the maximum size of an answer, in bytes: a chain of ten
	// large certificates fits several times.
	maxAnswer = 256 << 10
	// maxChain is the maximum number of certificates in an answer.
	maxChain = 10
	// defaultRetryAfter is when to call again if the endpoint does not set a
	// time.
	defaultRetryAfter = 10 * time.Second
	// maxRetryAfter is the longest delay that an endpoint can request.
	maxRetryAfter = 24 * time.Hour
	// maxText is the maximum size of messages for requesters, in bytes.
	maxText = 1024
)

// reasons matches the valid reasons of conditions.
var reasons = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,63}$`)

// wanted contains the requirements for an answer.
type wanted struct {
	uid string
	pki.Wanted
	// honoured returns the CAs for clients of the API server.
	honoured signer.Honoured
}

// verdict converts an endpoint's answer to a signer's verdict. Any other error
// reports what is wrong with the answer.
func (w wanted) verdict(body []byte, now time.Time) (*signer.Issued, error) {
	answer, err := decode(body)
	if err != nil {
		return nil, err
	}
	if answer.UID != w.uid {
		return nil, errors.New("uid is not the UID of the request")
	}
	switch answered := [...]bool{answer.Certificate != "", answer.Pending != nil, answer.Failed != nil}; answered {
	case [...]bool{true, false, false}:
		return w.issued([]byte(answer.Certificate), now)
	case [...]bool{false, true, false}:
		return nil, pending(answer.Pending)
	case [...]bool{false, false, true}:
		return nil, failed(answer.Failed)
	default:
		return nil, errors.New("exactly one of certificate, pending and failed must be set")
	}
}

// decode is strict: a misspelt field must not be treated as a missing one.
func decode(body []byte) (*v1alpha1.SigningResponse, error) {
	answer := &v1alpha1.SigningResponse{}
	strictErrs, err := kjson.UnmarshalStrict(body, answer)
	if err == nil && len(strictErrs) > 0 {
		err = strictErrs[0]
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the JSON: %w", err)
	case answer.APIVersion != v1alpha1.APIVersion || answer.Kind != v1alpha1.ResponseKind:
		return nil, fmt.Errorf("apiVersion and kind must be %q and %q", v1alpha1.APIVersion, v1alpha1.ResponseKind)
	}
	return answer, nil
}

func pending(p *v1alpha1.Pending) error {
	wait := time.Duration(p.RetryAfterSeconds) * time.Second
	if p.RetryAfterSeconds < 0 || p.RetryAfterSeconds > int64(maxRetryAfter/time.Second) {
		return errors.New("pending.retryAfterSeconds must be between 0 and a day")
	}
	return &signer.PendingError{
		Reason:     signer.ReasonPending,
		Message:    cmp.Or(presentable(p.Message), "the signer received the request and needs more time"),
		Err:        errors.New("the endpoint needs more time"),
		RetryAfter: cmp.Or(wait, defaultRetryAfter),
	}
}

func failed(f *v1alpha1.Failed) error {
	message := presentable(f.Message)
	switch {
	case !reasons.MatchString(f.Reason):
		return errors.New("failed.reason must be one word in CamelCase, at most 64 characters")
	case message == "":
		return errors.New("failed.message must explain what is wrong with the request")
	}
	return signer.Permanent(f.Reason, errors.New(message))
}

// presentable replaces line breaks, terminal escapes and the like by spaces,
// for texts in conditions.
func presentable(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, ""))
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	return strings.TrimSpace(text)
}

// issued accepts a chain by the rules of the API server and the needs of
// relying parties.
func (w wanted) issued(chain []byte, now time.Time) (*signer.Issued, error) {
	certs, err := pki.ParseCertificates(chain)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading certificate: %w", err)
	case len(certs) > maxChain:
		return nil, fmt.Errorf("certificate has %d certificates, more than %d", len(certs), maxChain)
	}
	path, err := pki.AcceptPath(certs, w.Wanted, now)
	if err != nil {
		return nil, err
	}
	if err := w.honoured.Check(path); err != nil { // another answer would be no better
		return nil, signer.Permanent(signer.ReasonRefused, err)
	}
	return &signer.Issued{Certificate: path[0], PEM: pki.EncodeCertificates(path...)}, nil
}
