package explain

import (
	"time"

	"github.com/certplane/certplane/internal/api/certificates"
)

// Explanation is what is known of a CertificateSigningRequest, as machines get
// it.
type Explanation = Explained[Request]

// RequestExplanation is what is known of a CertificateRequest, as machines get
// it.
type RequestExplanation = Explained[IssuerRequest]

// PodExplanation is what is known of a pod's request, as machines get it.
type PodExplanation = Explained[PodRequest]

// Explained is what is known of a request that asks for R.
type Explained[R any] struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// State is how far the request has come.
	State certificates.State `json:"state"`
	// Verdict is the explanation in one sentence.
	Verdict string `json:"verdict"`
	Request R      `json:"request"`
	// Checks are the parts that decide, in the order in which they do.
	Checks      []Check      `json:"checks"`
	Certificate *Certificate `json:"certificate,omitempty"`
	// RefreshAt is when a pod's next certificate is due.
	RefreshAt *time.Time `json:"refreshAt,omitempty"`
	// Events are what controllers told of the request, the latest last.
	Events []Event `json:"events,omitempty"`
	// Next is what can be done now.
	Next []Step `json:"next,omitempty"`
}

// Request is what was asked for, and the user that asked.
type Request struct {
	SignerName string    `json:"signerName"`
	Created    time.Time `json:"created"`
	Username   string    `json:"username"`
	Groups     []string  `json:"groups,omitempty"`
	Subject    string    `json:"subject,omitempty"`
	// Names are the subject alternative names, each with its kind in front.
	Names             []string `json:"names,omitempty"`
	Usages            []string `json:"usages"`
	Key               string   `json:"key,omitempty"`
	ExpirationSeconds *int32   `json:"expirationSeconds,omitempty"`
}

// Check is what one part decides.
type Check struct {
	Name    string `json:"name"`
	Result  Result `json:"result"`
	Message string `json:"message"`
}

// Certificate is the one that was issued.
type Certificate struct {
	Subject      string    `json:"subject"`
	Issuer       string    `json:"issuer"`
	SerialNumber string    `json:"serialNumber"`
	SHA256       string    `json:"sha256"`
	NotBefore    time.Time `json:"notBefore"`
	NotAfter     time.Time `json:"notAfter"`
}

// Event is what a controller told.
type Event struct {
	Time     time.Time `json:"time"`
	Type     string    `json:"type"`
	Reason   string    `json:"reason"`
	Reporter string    `json:"reporter"`
	Note     string    `json:"note"`
}

// Step is something to do, and what to type for it.
type Step struct {
	Text     string     `json:"text"`
	Commands [][]string `json:"commands,omitempty"`
	// Input is what the last command reads.
	Input string `json:"input,omitempty"`
}
