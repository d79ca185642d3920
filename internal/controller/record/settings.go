package record

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/process/duration"
)

// The kinds of requests whose certificates can be recorded.
const signingRequests, certificateRequests, podRequests = "CertificateSigningRequest", "CertificateRequest", "PodCertificateRequest"

// Settings is the stanza "inventory".
type Settings struct {
	// kinds are the kinds of requests whose certificates are recorded:
	// CertificateSigningRequest, CertificateRequest and PodCertificateRequest. Certificates of
	// pods live for a day and are most of all certificates. Default:
	// CertificateSigningRequest and CertificateRequest.
	Kinds []string `json:"kinds"`
	// maxMiB is how much the records may take in the store of the API server, in MiB: from 1
	// to 1024. 4 MiB hold 20,000 certificates. From nine tenths on, records of ended
	// certificates are deleted before their time, and those of pods' certificates are not
	// made; when it is full, none are made. Default: 4.
	MaxMiB int `json:"maxMiB"`
	// keep is how long a record is kept after the end of its certificate, to the next day:
	// from 1d to 3650d. Default: 7d.
	Keep metav1.Duration `json:"keep"`
	// required makes requests wait while their certificates cannot be recorded. A signed
	// certificate is held for a tenth of its lifetime, at most an hour; then another one is
	// signed. Otherwise a certificate is recorded later, from its request. Default: false.
	Required bool `json:"required"`
}

const mostMiB, leastKeep, mostKeep = 1024, 24 * time.Hour, 3650 * 24 * time.Hour

// DefaultSettings returns the defaults.
func DefaultSettings() Settings {
	return Settings{Kinds: []string{signingRequests, certificateRequests}, MaxMiB: 4, Keep: metav1.Duration{Duration: 7 * 24 * time.Hour}}
}

// Validate returns an error for the first invalid value, with the name of its field.
func (s Settings) Validate() error {
	known := []string{signingRequests, certificateRequests, podRequests}
	for i, kind := range s.Kinds {
		if !slices.Contains(known, kind) {
			return fmt.Errorf("inventory.kinds[%d]: %q is not one of %s", i, kind, strings.Join(known, ", "))
		}
	}
	if s.MaxMiB < 1 || s.MaxMiB > mostMiB {
		return fmt.Errorf("inventory.maxMiB: %d is out of range: must be from 1 to %d; to record nothing, add -record to controllers", s.MaxMiB, mostMiB)
	}
	if s.Keep.Duration < leastKeep || s.Keep.Duration > mostKeep {
		return fmt.Errorf("inventory.keep: %s is out of range: must be from %s to %s", duration.Format(s.Keep.Duration), duration.Format(leastKeep), duration.Format(mostKeep))
	}
	return nil
}
