package issuance

// Finding is a fact about a Certificate to report in a condition or an Event.
// The zero value means that there is nothing to report.
type Finding struct {
	// Reason is a CamelCase word for programs.
	Reason string
	// Message is for people. It contains no times or names that change by
	// themselves, unless it is about these.
	Message string
}

// None reports whether there is nothing to report.
func (f Finding) None() bool { return f.Reason == "" }

// The reasons why a certificate is issued, or is not ready.
const (
	ReasonDoesNotExist          = "DoesNotExist"
	ReasonMissingData           = "MissingData"
	ReasonInvalidKeyPair        = "InvalidKeyPair"
	ReasonInvalidCertificate    = "InvalidCertificate"
	ReasonTemporary             = "TemporaryCertificate"
	ReasonIncorrectIssuer       = "IncorrectIssuer"
	ReasonIncorrectCertificate  = "IncorrectCertificate"
	ReasonSecretMismatch        = "SecretMismatch"
	ReasonInvalidRequest        = "InvalidCertificateRequest"
	ReasonRequestChanged        = "RequestChanged"
	ReasonRenewing              = "Renewing"
	ReasonExpired               = "Expired"
	ReasonRevoked               = "Revoked"
	ReasonReady                 = "Ready"
	ReasonManuallyTriggered     = "ManuallyTriggered"
	ReasonWindowError           = "WindowError"
	ReasonCannotRegenerateKey   = "CannotRegenerateKey"
	ReasonAdopted               = "SecretAdopted"
	messageReady                = "Certificate is up to date and has not expired"
	messageManuallyTriggered    = "Certificate re-issuance manually triggered"
	messageFailedAndRetriedForm = "The certificate request has failed to complete and will be retried: %s"
)
