package cluster

import (
	"errors"
	"slices"

	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/controllers"
	"github.com/certplane/certplane/internal/keystore"
)

// CA is the stanza "signingCA".
type CA struct {
	// certFile is the CA's certificate. Flag: --cluster-signing-cert-file.
	CertFile string `json:"certFile,omitempty"`
	// keyFile is the CA's key. Flag: --cluster-signing-key-file.
	KeyFile string `json:"keyFile,omitempty"`
}

// openCA gives the signers their CA, or switches them off.
func openCA(cfg Config, work *controllers.Config) error {
	if cfg.SigningCA.CertFile != "" {
		ca, err := keystore.OpenFiles(cfg.SigningCA.CertFile, cfg.SigningCA.KeyFile)
		work.CA = ca
		return err
	}
	if slices.Contains(cfg.Controllers, "sign") {
		return errors.New("the sign controller is asked for, but no CA is configured")
	}
	klog.InfoS("No CA is configured, so the sign controller is off")
	work.Settings.Controllers = append(slices.Clone(cfg.Controllers), "-sign")
	return nil
}

// CAFiles are the files with CAs that the configuration names.
func (c Config) CAFiles() []string {
	if c.SigningCA.CertFile == "" {
		return nil
	}
	return []string{c.SigningCA.CertFile, c.SigningCA.KeyFile}
}
