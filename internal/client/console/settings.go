package console

import (
	"errors"
	"fmt"
	"net/url"
)

// Path is the path of the console in "certplane serve".
const Path = "/console/"

// Settings is the stanza "console".
type Settings struct {
	// enabled serves the console at /console/ of the API's port: pages that show
	// requests, certificates, signers and hosts. Each user logs in, and has the same
	// rights there as at the API. Default: true.
	Enabled bool `json:"enabled"`
	// openIDConnect lets users log in at a provider of OpenID Connect. The API has to
	// accept its tokens: authentication.configFile. Default: none; users log in
	// with a token or with the client certificate of their browser.
	OpenIDConnect OIDCSettings `json:"openIDConnect"`
}

// OIDCSettings is the stanza "console.openIDConnect".
type OIDCSettings struct {
	// issuerURL is the https URL of the provider, as in the claim "iss" of its
	// tokens. Default: none, which disables this login.
	IssuerURL string `json:"issuerURL,omitempty"`
	// caFile is a PEM bundle that the provider's certificate must chain to.
	// Default: the roots of this host.
	CAFile string `json:"caFile,omitempty"`
	// clientID is the name of the console at the provider, where its redirect URI
	// is https://HOST:PORT/console/oidc/callback.
	ClientID string `json:"clientID,omitempty"`
	// clientSecretFile holds the secret of the client. It is read again at each
	// login. Default: none, as for a public client; PKCE is used in any case.
	ClientSecretFile string `json:"clientSecretFile,omitempty"`
	// scopes are requested in addition to openid, such as email or groups. Default: none.
	Scopes []string `json:"scopes,omitempty"`
}

// DefaultSettings are the settings of a server without a configuration file.
func DefaultSettings() Settings { return Settings{Enabled: true} }

// Validate reports the values that cannot work.
func (s Settings) Validate() error {
	o := s.OpenIDConnect
	if o.IssuerURL == "" {
		if o.ClientID != "" || o.ClientSecretFile != "" || o.CAFile != "" || len(o.Scopes) > 0 {
			return errors.New("console.openIDConnect.issuerURL: must be set if other fields of the stanza are")
		}
		return nil
	}
	if at, err := url.Parse(o.IssuerURL); err != nil || at.Scheme != "https" || at.Host == "" {
		return fmt.Errorf("console.openIDConnect.issuerURL: %q is not an https URL", o.IssuerURL)
	}
	if o.ClientID == "" {
		return errors.New("console.openIDConnect.clientID: must be set: the name of the console at the provider")
	}
	return nil
}
