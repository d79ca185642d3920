package issuance

// Finding is something about a Certificate that people and programs are told:
// by a condition or an Event. The zero value is that there is nothing to tell.
type Finding struct {
	// Reason is one word for programs.
	Reason string
	// Message is for people. It has no times or names that change by
	// themselves, except where they are the point.
	Message string
}

// None reports whether there is nothing to tell.
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
	ReasonReady                 = "Ready"
	ReasonManuallyTriggered     = "ManuallyTriggered"
	ReasonWindowError           = "WindowError"
	ReasonCannotRegenerateKey   = "CannotRegenerateKey"
	ReasonAdopted               = "SecretAdopted"
	messageReady                = "Certificate is up to date and has not expired"
	messageManuallyTriggered    = "Certificate re-issuance manually triggered"
	messageFailedAndRetriedForm = "The certificate request has failed to complete and will be retried: %s"
)
