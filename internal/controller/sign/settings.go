package sign

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/issuing/signer/webhook"
	"github.com/certplane/certplane/internal/keystore"
)

// Settings is the stanza "signing".
type Settings struct {
	// ca is the CA of all signers of kubernetes.io. Set either this or, under
	// signers, CAs of single signers: setting both is an error. "certplane
	// serve" creates a CA for signers without one; "certplane controllers" does
	// not run such signers. Flags: --cluster-signing-cert-file,
	// --cluster-signing-key-file.
	CA keystore.Settings `json:"ca"`
	// maxDuration is the longest lifetime of a certificate, and the lifetime if a request
	// has no expirationSeconds. A request for a longer lifetime gets this one, without an
	// error. A certificate never outlives its CA, whatever this value is. A duration such
	// as 24h. 0 means the default. Default: 8760h, a year. Flag:
	// --cluster-signing-duration.
	MaxDuration metav1.Duration `json:"maxDuration"`
	// minRSABits is the smallest size of RSA keys. Requests with smaller keys fail. With
	// 2048 or more, requests with a public exponent below 65537 fail too. 1024, the
	// minimum, also admits older clients. Default: 2048, which all Kubernetes tools meet.
	MinRSABits int `json:"minRSABits"`
	// strict refuses node certificates (signers kubelet-serving and
	// kube-apiserver-client-kubelet) unless their common name is "system:node:" followed by
	// a valid node name. Kubernetes also signs certificates without a valid node name.
	// Default: false.
	Strict bool `json:"strict,omitempty"`
	// concurrency is the maximum number of requests that each signer processes at the same
	// time. A higher number helps if the API server is slow to store certificates. Default:
	// 5.
	Concurrency int `json:"concurrency"`
	// warnBefore is how long before the expiry of a CA its signer begins to warn, once a
	// day, with an Event and in the log. Certificates that would outlive the CA get a
	// shorter lifetime, so replace the CA even earlier. Default: 720h, thirty days.
	WarnBefore metav1.Duration `json:"warnBefore"`
	// signers are settings for individual signers. Each entry sets name, such as
	// kubernetes.io/kubelet-serving, and any of ca, maxDuration, minRSABits and strict. If
	// one entry sets ca, signing.ca must be empty. Flags:
	// --cluster-signing-kubelet-serving-cert-file and -key-file; likewise -kubelet-client-,
	// -kube-apiserver-client-, -legacy-unknown-. Default: none.
	Signers []SignerSettings `json:"signers,omitempty"`
	// webhooks are signers implemented by HTTPS endpoints, for names of kubernetes.io or
	// other domains. Each entry sets signerName and url, and any of caFile, serverName,
	// certFile, keyFile, tokenFile, timeout, retries, maxDuration and concurrency: see
	// docs/webhook-signer.md. Default: none.
	Webhooks []webhook.Settings `json:"webhooks,omitempty"`
}

// SignerSettings are the settings of one signer.
type SignerSettings struct {
	// name is the signer's name.
	Name string `json:"name"`
	// ca is the signer's own CA. Default: signing.ca.
	CA keystore.Settings `json:"ca,omitzero"`
	// maxDuration works like signing.maxDuration, which is the default.
	MaxDuration metav1.Duration `json:"maxDuration,omitzero"`
	// minRSABits works like signing.minRSABits, which is the default.
	MinRSABits int `json:"minRSABits,omitempty"`
	// strict works like signing.strict, which is the default. If signing.strict is true,
	// false has no effect.
	Strict bool `json:"strict,omitempty"`
}

// DefaultSettings returns the defaults.
func DefaultSettings() Settings {
	return Settings{
		MaxDuration: metav1.Duration{Duration: 365 * 24 * time.Hour},
		MinRSABits:  defaultRSABits,
		Concurrency: 5,
		WarnBefore:  metav1.Duration{Duration: 30 * 24 * time.Hour},
	}
}

// Bounds of minRSABits: verifiers do not accept smaller keys than the first, and larger
// keys than the second are not read.
const (
	minRSABits     = 1024
	maxRSABits     = 16384
	defaultRSABits = 2048
)

// All returns the settings of each signer of kubernetes.io.
func (s Settings) All() []SignerSettings {
	var all []SignerSettings
	for _, name := range signer.Names() {
		all = append(all, s.For(name))
	}
	return all
}

// For returns the settings of a signer.
func (s Settings) For(signerName string) SignerSettings {
	s = s.withDefaults()
	own := SignerSettings{}
	if i := s.index(signerName); i >= 0 {
		own = s.Signers[i]
	}
	own.Name = signerName
	own.CA, _ = s.CAOf(signerName)
	own.Strict = own.Strict || s.Strict
	if own.MaxDuration.Duration == 0 {
		own.MaxDuration = s.MaxDuration
	}
	if own.MinRSABits == 0 {
		own.MinRSABits = s.MinRSABits
	}
	return own
}

// index returns the index of a signer among those with their own settings, or a
// negative number.
func (s Settings) index(signerName string) int {
	for i, own := range s.Signers {
		if own.Name == signerName {
			return i
		}
	}
	return -1
}

// withDefaults completes settings that were made without DefaultSettings.
func (s Settings) withDefaults() Settings {
	defaults := DefaultSettings()
	if s.MaxDuration.Duration == 0 {
		s.MaxDuration = defaults.MaxDuration
	}
	if s.MinRSABits == 0 {
		s.MinRSABits = defaults.MinRSABits
	}
	if s.Concurrency == 0 {
		s.Concurrency = defaults.Concurrency
	}
	if s.WarnBefore.Duration == 0 {
		s.WarnBefore = defaults.WarnBefore
	}
	return s
}

// Validate returns an error for the first invalid value, with the name of its
// field.
func (s Settings) Validate() error {
	if s.MaxDuration.Duration == 0 { // like kube-controller-manager's flag
		s.MaxDuration = DefaultSettings().MaxDuration
	}
	if err := checkLimits("signing", s.MaxDuration.Duration, s.MinRSABits); err != nil {
		return err
	}
	if s.Concurrency < 1 {
		return fmt.Errorf("signing.concurrency: %d must be at least 1", s.Concurrency)
	}
	if s.WarnBefore.Duration < 0 {
		return fmt.Errorf("signing.warnBefore: %s must not be negative", s.WarnBefore.Duration)
	}
	for i, own := range s.Signers {
		if err := s.checkSigner(i, own); err != nil {
			return err
		}
	}
	if err := s.checkCAs(); err != nil {
		return err
	}
	return s.checkWebhooks()
}

func (s Settings) checkSigner(i int, own SignerSettings) error {
	field := fmt.Sprintf("signing.signers[%d]", i)
	if _, err := signer.Lookup(own.Name); err != nil {
		return fmt.Errorf("%s.name: %w", field, err)
	}
	if s.index(own.Name) != i {
		return fmt.Errorf("%s.name: %s is listed twice", field, own.Name)
	}
	complete := s.For(own.Name)
	return checkLimits(field, complete.MaxDuration.Duration, complete.MinRSABits)
}

func checkLimits(field string, maxDuration time.Duration, minBits int) error {
	if maxDuration < time.Minute {
		return fmt.Errorf("%s.maxDuration: %s is too short: must be at least 1m", field, maxDuration)
	}
	if minBits < minRSABits || minBits > maxRSABits {
		return fmt.Errorf("%s.minRSABits: %d must be from %d to %d", field, minBits, minRSABits, maxRSABits)
	}
	return nil
}
