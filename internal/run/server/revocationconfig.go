package server

import (
	"errors"

	"github.com/certplane/certplane/internal/frontend"
)

// RevocationConfig is the stanza "revocation".
type RevocationConfig struct {
	// listen is the address, HOST:PORT, where everybody is served the revocation lists, by
	// plain HTTP: GET /NAME.crl, with the name of a RevocationList. A list is signed, so that
	// it needs no TLS, and a proxy may stand between. Default: "0", none.
	Listen string `json:"listen"`
	// lists sets when revocation lists are signed.
	Lists ListsConfig `json:"lists"`
	// webhook configures the webhook with which a kube-apiserver refuses revoked
	// certificates of this server. It presents the certificate of the API: its names are
	// those of serving.
	Webhook frontend.RevocationWebhookConfig `json:"webhook"`
}

func defaultRevocationConfig() RevocationConfig {
	return RevocationConfig{Listen: frontend.Off, Lists: defaultLists(), Webhook: frontend.DefaultRevocationWebhookConfig()}
}

const listListen = "revocation.listen"

// servesLists reports whether revocation lists are served by plain HTTP.
func (c RevocationConfig) servesLists() bool { return c.Listen != frontend.Off && c.Listen != "" }

func (c RevocationConfig) validate() error {
	errs := []error{c.Lists.validate(), c.Webhook.Validate()}
	if c.servesLists() {
		errs = append(errs, frontend.CheckAddress(listListen, c.Listen))
	}
	return errors.Join(errs...)
}
