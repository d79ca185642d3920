package apiserver

import (
	"fmt"

	genericapiserver "k8s.io/apiserver/pkg/server"
	cliflag "k8s.io/component-base/cli/flag"
)

// TLSConfig is the stanza "serving.tls".
type TLSConfig struct {
	// minVersion is the oldest accepted version of TLS, VersionTLS12 or VersionTLS13.
	// Default: VersionTLS12.
	MinVersion string `json:"minVersion,omitempty"`
	// cipherSuites are the accepted cipher suites of TLS 1.2, by their IANA names. The
	// suites of TLS 1.3 are always on. Default: all with forward secrecy and authenticated
	// encryption. HTTP/2 needs one with AES_128_GCM_SHA256.
	CipherSuites []string `json:"cipherSuites,omitempty"`
}

// DefaultTLSConfig supports every client of the last ten years.
func DefaultTLSConfig() TLSConfig {
	return TLSConfig{
		MinVersion: "VersionTLS12",
		CipherSuites: []string{
			"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
			"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
			"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
			"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
			"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
			"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
		},
	}
}

// Validate returns an error for names that do not exist.
func (c TLSConfig) Validate() error {
	_, _, err := c.parse()
	return err
}

func (c TLSConfig) parse() (version uint16, suites []uint16, err error) {
	if c.MinVersion != "VersionTLS12" && c.MinVersion != "VersionTLS13" {
		return 0, nil, fmt.Errorf("serving.tls.minVersion: unknown value %q; known: VersionTLS12, VersionTLS13", c.MinVersion)
	}
	if version, err = cliflag.TLSVersion(c.MinVersion); err != nil {
		return 0, nil, fmt.Errorf("serving.tls.minVersion: %w", err)
	}
	if suites, err = cliflag.TLSCipherSuites(c.CipherSuites); err != nil {
		return 0, nil, fmt.Errorf("serving.tls.cipherSuites: %w; known: %v", err, cliflag.PreferredTLSCipherNames())
	}
	return version, suites, nil
}

func (c TLSConfig) applyTo(generic *genericapiserver.Config) (err error) {
	serving := generic.SecureServing
	serving.MinTLSVersion, serving.CipherSuites, err = c.parse()
	return err
}
