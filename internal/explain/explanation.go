package explain

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certificates"
)

// Explanation is what is known about a CertificateSigningRequest, in the form
// for machines.
type Explanation = Explained[Request]

// RequestExplanation is what is known about a CertificateRequest, in the form
// for machines.
type RequestExplanation = Explained[IssuerRequest]

// PodExplanation is what is known about a pod's request, in the form for
// machines.
type PodExplanation = Explained[PodRequest]

// Explained is what is known about a request that asks for R.
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
	// Events are what controllers reported about the request, the latest last.
	Events []Event `json:"events,omitempty"`
	// Next is what can be done now.
	Next []Step `json:"next,omitempty"`
}

// Content is what requests with PKCS#10 have in common: what was requested, and
// the requesting user.
type Content struct {
	Created  time.Time `json:"created"`
	Username string    `json:"username"`
	Groups   []string  `json:"groups,omitempty"`
	Subject  string    `json:"subject,omitempty"`
	// Names are the subject alternative names, each with its kind in front.
	Names  []string `json:"names,omitempty"`
	Usages []string `json:"usages"`
	Key    string   `json:"key,omitempty"`
}

// Request is what a CertificateSigningRequest asks for.
type Request struct {
	Content
	SignerName        string `json:"signerName"`
	ExpirationSeconds *int32 `json:"expirationSeconds,omitempty"`
}

// IssuerRequest is what a CertificateRequest asks for.
type IssuerRequest struct {
	Content
	Issuer string `json:"issuer"`
	// Owner is the Certificate that the request is for, if there is one.
	Owner    string           `json:"certificate,omitempty"`
	IsCA     bool             `json:"isCA"`
	Duration *metav1.Duration `json:"duration,omitempty"`
}

// PodRequest is what a pod's request asks for, and for which pod.
type PodRequest struct {
	SignerName        string            `json:"signerName"`
	Created           time.Time         `json:"created"`
	Pod               string            `json:"pod"`
	ServiceAccount    string            `json:"serviceAccount"`
	Node              string            `json:"node"`
	Key               string            `json:"key,omitempty"`
	ExpirationSeconds *int32            `json:"expirationSeconds,omitempty"`
	Annotations       map[string]string `json:"annotations,omitempty"`
}

// Check is the decision of one part.
type Check struct {
	Name    string `json:"name"`
	Result  Result `json:"result"`
	Message string `json:"message"`
}

// Certificate is the issued certificate.
type Certificate struct {
	Subject      string    `json:"subject"`
	Issuer       string    `json:"issuer"`
	SerialNumber string    `json:"serialNumber"`
	SHA256       string    `json:"sha256"`
	NotBefore    time.Time `json:"notBefore"`
	NotAfter     time.Time `json:"notAfter"`
	// Revocation is that of the certificate, if the inventory has one and the caller may read
	// it.
	Revocation *Revocation `json:"revocation,omitempty"`
}

// Revocation is when, why and by whom a certificate was revoked.
type Revocation struct {
	Time   time.Time `json:"time"`
	Reason string    `json:"reason"`
	// By is an account of the ACME server, "certificate key" or "server".
	By string `json:"by"`
}

// String returns the revocation in one phrase.
func (r Revocation) String() string {
	return r.Time.UTC().Format(time.RFC3339) + ": " + r.Reason + ", by " + r.By
}

// Event is an event from a controller.
type Event struct {
	Time     time.Time `json:"time"`
	Type     string    `json:"type"`
	Reason   string    `json:"reason"`
	Reporter string    `json:"reporter"`
	Note     string    `json:"note"`
}

// Step is something to do, and the commands for it.
type Step struct {
	Text     string     `json:"text"`
	Commands [][]string `json:"commands,omitempty"`
	// Input is what the last command reads.
	Input string `json:"input,omitempty"`
}

func step(text string, commands ...[]string) Step { return Step{Text: text, Commands: commands} }
