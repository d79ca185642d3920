package webhook

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/process/httpsclient"
)

// Settings is an element of "signing.webhooks".
type Settings struct {
	// signerName is the signer whose requests go to the endpoint: a name such as
	// example.com/my-signer, or example.com/* for all signers of a domain without their own
	// element. It replaces a built-in signer of the same name.
	SignerName string `json:"signerName"`
	// url is the endpoint's address. Its scheme must be https, and it must contain neither
	// a password nor a query: they would appear in logs. Redirects are not followed.
	// HTTPS_PROXY and NO_PROXY are honoured, as for all clients of Kubernetes APIs; a proxy
	// sees only the endpoint's host name.
	URL string `json:"url"`
	// caFile is a PEM bundle of the CAs to which the endpoint's certificate must chain.
	// Default: the CAs that this host trusts. This file and those below are read again for
	// every call, so they can be replaced at any time.
	CAFile string `json:"caFile,omitempty"`
	// serverName is the name in the endpoint's certificate.
	// Default: the host in url.
	ServerName string `json:"serverName,omitempty"`
	// certFile and keyFile are the client certificate for the endpoint. Set both, or
	// tokenFile, or all three: an endpoint that does not authenticate its callers signs for
	// every client.
	CertFile string `json:"certFile,omitempty"`
	// keyFile is the private key of certFile.
	KeyFile string `json:"keyFile,omitempty"`
	// tokenFile contains a token that is sent as Authorization: Bearer.
	TokenFile string `json:"tokenFile,omitempty"`
	// timeout is the time limit of one call, including the connection: at most 30s. A
	// duration such as 5s. Default: 10s.
	Timeout metav1.Duration `json:"timeout,omitzero"`
	// retries is the number of immediate repetitions of a failed call: at most 5. After
	// that, and after a timeout, the request waits for its next attempt. Default: 2.
	Retries *int `json:"retries,omitempty"`
	// maxDuration is the longest lifetime of a certificate. Certificates with a longer
	// lifetime are refused. Default: signing.maxDuration.
	MaxDuration metav1.Duration `json:"maxDuration,omitzero"`
	// concurrency is the maximum number of concurrent calls. Default: 10.
	Concurrency int `json:"concurrency,omitempty"`
}

// Limits of settings.
const (
	maxTimeout     = 30 * time.Second
	maxRetries     = 5
	minMaxDuration = time.Minute
)

// withDefaults completes s.
func (s Settings) withDefaults() Settings {
	if s.Timeout.Duration == 0 {
		s.Timeout.Duration = 10 * time.Second
	}
	if s.Retries == nil {
		s.Retries = new(2)
	}
	s.Concurrency = s.Calls()
	return s
}

// Calls returns the maximum number of concurrent calls.
func (s Settings) Calls() int { return cmp.Or(s.Concurrency, 10) }

// Validate returns an error for the first invalid value, with its field under
// path. It does not check the name of the signer.
func (s Settings) Validate(path string) error {
	if err := httpsclient.CheckURL(s.URL); err != nil {
		return fmt.Errorf("%s.url: %w", path, err)
	}
	switch {
	case (s.CertFile == "") != (s.KeyFile == ""):
		return fmt.Errorf("%s.certFile and %s.keyFile: set both or none", path, path)
	case s.CertFile == "" && s.TokenFile == "":
		return fmt.Errorf("%s: set certFile and keyFile, or tokenFile: an endpoint that does not authenticate its callers signs for every client", path)
	}
	if d := s.Timeout.Duration; d < 0 || d > maxTimeout {
		return fmt.Errorf("%s.timeout: %s is out of range: must be more than 0 and at most %s", path, d, maxTimeout)
	}
	if s.Retries != nil && (*s.Retries < 0 || *s.Retries > maxRetries) {
		return fmt.Errorf("%s.retries: %d is out of range: must be between 0 and %d", path, *s.Retries, maxRetries)
	}
	if d := s.MaxDuration.Duration; d != 0 && d < minMaxDuration {
		return fmt.Errorf("%s.maxDuration: %s is too short: must be at least 1m", path, d)
	}
	if s.Concurrency < 0 {
		return fmt.Errorf("%s.concurrency: %d must be at least 1", path, s.Concurrency)
	}
	return nil
}

// anyOf is the suffix of a signerName that means all signers of a domain.
const anyOf = "/*"

// Domain returns the domain if s is for all signers of a domain; ok is false if s is for
// one signer.
func (s Settings) Domain() (domain string, ok bool) { return strings.CutSuffix(s.SignerName, anyOf) }

// Choose returns the index of the element for a signer, or -1. A signer's own element takes
// precedence over the element for its domain.
func Choose(all []Settings, signerName string) int {
	domain, _, _ := strings.Cut(signerName, "/")
	for _, name := range []string{signerName, domain + anyOf} {
		if i := slices.IndexFunc(all, func(s Settings) bool { return s.SignerName == name }); i >= 0 {
			return i
		}
	}
	return -1
}
