package sign

import (
	"fmt"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/issuing/signer/webhook"
)

// Delegated returns the names of the signers that are webhooks; example.com/*
// stands for all signers of a domain.
func (s Settings) Delegated() []string {
	var names []string
	for _, w := range s.Webhooks {
		names = append(names, w.SignerName)
	}
	return names
}

// LimitsOf returns the limits that the settings set for a signer of any kind.
func (s Settings) LimitsOf(signerName string) signer.Limits { return limits(s.For(signerName)) }

// checkWebhooks checks that each webhook has a unique name and that no other
// signer signs for it.
func (s Settings) checkWebhooks() error {
	for i, w := range s.Webhooks {
		path := fmt.Sprintf("signing.webhooks[%d]", i)
		if err := checkDelegated(w); err != nil {
			return fmt.Errorf("%s.signerName: %w", path, err)
		}
		if first := webhook.Choose(s.Webhooks, w.SignerName); first != i {
			return fmt.Errorf("%s.signerName: %q is already used by signing.webhooks[%d]", path, w.SignerName, first)
		}
		if err := w.Validate(path); err != nil {
			return err
		}
	}
	for i, own := range s.Signers {
		if delegated := webhook.Choose(s.Webhooks, own.Name); delegated >= 0 && !own.CA.IsZero() {
			return fmt.Errorf("signing.signers[%d].ca: %s is delegated by signing.webhooks[%d]: remove one of the two", i, own.Name, delegated)
		}
	}
	return nil
}

func checkDelegated(w webhook.Settings) error {
	name := w.SignerName
	if domain, ok := w.Domain(); ok {
		name = domain + "/any"
	}
	if len(certificates.ValidateSignerName(nil, name)) > 0 {
		return fmt.Errorf("%q must be a signer such as example.com/my-signer, or example.com/* for all of a domain", w.SignerName)
	}
	return nil
}
