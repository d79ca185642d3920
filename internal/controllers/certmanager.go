package controllers

import "github.com/certplane/certplane/internal/controller/issue"

// CertManagerSettings is the stanza "certManager".
type CertManagerSettings struct {
	issue.CertificateSettings `json:",inline"`
}

func defaultCertManagerSettings() CertManagerSettings {
	return CertManagerSettings{CertificateSettings: issue.DefaultCertificateSettings()}
}

// Validate reports the first value that cannot work, by its field.
func (s CertManagerSettings) Validate() error { return s.CertificateSettings.Validate() }
