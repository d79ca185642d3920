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
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/signer"
)

const (
	// maxAnswer bounds an answer, in bytes: a chain of ten large certificates
	// fits several times.
	maxAnswer = 256 << 10
	// maxChain bounds how many certificates come with one.
	maxChain = 10
	// defaultRetryAfter is when to ask again if the endpoint does not say.
	defaultRetryAfter = 10 * time.Second
	// maxRetryAfter bounds for how long an endpoint can put us off.
	maxRetryAfter = 24 * time.Hour
	// maxText bounds the messages that requesters get to read, in bytes.
	maxText = 1024
)

// reasons are what conditions can give as one.
var reasons = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,63}$`)

// wanted is what an answer is held to.
type wanted struct {
	uid string
	pki.Wanted
	// honoured are the CAs of the API's own clients.
	honoured signer.Honoured
}

// verdict makes a signer's verdict of an endpoint's answer. Any other error
// says that the answer is wrong, and how.
func (w wanted) verdict(body []byte, now time.Time) (*signer.Issued, error) {
	answer, err := decode(body)
	if err != nil {
		return nil, err
	}
	if answer.UID != w.uid {
		return nil, errors.New("uid is not that of the request")
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

// decode is strict: a misspelt field must not pass for an absent one.
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
		Message:    cmp.Or(presentable(p.Message), "the signer has the request and needs more time"),
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
		return errors.New("failed.message must say what is wrong with the request")
	}
	return signer.Permanent(f.Reason, errors.New(message))
}

// presentable keeps line breaks, terminal escapes and the like away from the
// people who read conditions.
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

// issued takes a chain as the API server would, and as relying parties need it.
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
