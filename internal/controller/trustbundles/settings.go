package trustbundles

import "errors"

// Settings is the stanza "trustBundles".
type Settings struct {
	// secretTargets permits Secrets as targets of TrustBundles. With it, "certplane
	// manifests" prints the right to write all Secrets. Default: false, and true in
	// "certplane serve".
	SecretTargets bool `json:"secretTargets"`
	// perNamespace is the maximum number of TrustBundles in a namespace. Later ones are not
	// processed. Default: 50.
	PerNamespace int `json:"perNamespace"`
}

// DefaultSettings returns the defaults.
func DefaultSettings() Settings { return Settings{PerNamespace: 50} }

// Validate returns an error for the first invalid value, with the name of its field.
func (s Settings) Validate() error {
	if s.PerNamespace < 1 {
		return errors.New("trustBundles.perNamespace: must be at least 1")
	}
	return nil
}
