package controllermanager

import (
	"github.com/certplane/certplane/internal/collector/certmetrics"
	"github.com/certplane/certplane/internal/controller/issue"
)

// addCertificates adds the controller that issues Certificates of
// cert-manager.io and writes Secrets.
func addCertificates(a Actor, cfg Config) error {
	metrics, err := certmetrics.New(a.Metrics)
	if err != nil {
		return err
	}
	return issue.Add(a.Manager, issue.Config{
		Cache: a.Reader, API: a.API, Secrets: a.Secrets, Client: a.Client, Versions: a.Versions,
		Settings: cfg.Settings.CertManager.CertificateSettings, Events: a.Recorder, Metrics: metrics,
	})
}
