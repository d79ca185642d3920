package controllers

import (
	"github.com/certplane/certplane/internal/collector/certmetrics"
	"github.com/certplane/certplane/internal/controller/issue"
)

// certificatesAccount issues Certificates of cert-manager.io: it writes Secrets.
const certificatesAccount = "cert-manager-certificates"

func addCertificates(p Process, cfg Config) error {
	writer, err := p.Client(certificatesAccount)
	if err != nil {
		return err
	}
	recorders, err := p.Recorders(certificatesAccount)
	if err != nil {
		return err
	}
	api, err := p.As(certificatesAccount)
	if err != nil {
		return err
	}
	reader, err := p.As(CacheAccount)
	if err != nil {
		return err
	}
	versions, err := p.Versions(certificatesAccount)
	if err != nil {
		return err
	}
	secrets, err := p.secrets(certificatesAccount)
	if err != nil {
		return err
	}
	metrics, err := certmetrics.New(p.Metrics)
	if err != nil {
		return err
	}
	return issue.Add(p.Manager, issue.Config{
		Cache: reader, API: api, Secrets: secrets, Client: writer, Versions: versions,
		Settings: cfg.Settings.CertManager.CertificateSettings, Events: recorders, Metrics: metrics,
	})
}
