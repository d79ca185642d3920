package explain

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certificates"
)

// Explanation is the explanation of a CertificateSigningRequest, for JSON and YAML.
type Explanation = Explained[Request]

// RequestExplanation is the explanation of a CertificateRequest, for JSON and YAML.
type RequestExplanation = Explained[IssuerRequest]

// PodExplanation is the explanation of a pod's request, for JSON and YAML.
type PodExplanation = Explained[PodRequest]

// Explained is the explanation of a request with the content R.
type Explained[R any] struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// State is the progress of the request.
	State certificates.State `json:"state"`
	// Verdict is the explanation in one sentence.
	Verdict string `json:"verdict"`
	Request R      `json:"request"`
	// Checks are the deciding checks, in their order.
	Checks      []Check      `json:"checks"`
	Certificate *Certificate `json:"certificate,omitempty"`
	// RefreshAt is the time when a pod's next certificate is due.
	RefreshAt *time.Time `json:"refreshAt,omitempty"`
	// Events are the reports of controllers about the request, latest last.
	Events []Event `json:"events,omitempty"`
	// Next holds the next steps.
	Next []Step `json:"next,omitempty"`
}

// Content is the common content of requests with PKCS#10: the requested certificate, and
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

// Request is the content of a CertificateSigningRequest.
type Request struct {
	Content
	SignerName        string `json:"signerName"`
	ExpirationSeconds *int32 `json:"expirationSeconds,omitempty"`
}

// IssuerRequest is the content of a CertificateRequest.
type IssuerRequest struct {
	Content
	Issuer string `json:"issuer"`
	// Owner is the Certificate that the request is for, if any.
	Owner    string           `json:"certificate,omitempty"`
	IsCA     bool             `json:"isCA"`
	Duration *metav1.Duration `json:"duration,omitempty"`
}

// PodRequest is the content of a pod's request, with its pod.
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

// Check is the result of one check.
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
	// Revocation is the certificate's revocation, if the inventory contains one and the
	// caller may read it.
	Revocation *Revocation `json:"revocation,omitempty"`
}

// Revocation is the time, reason and author of a certificate's revocation.
type Revocation struct {
	Time   time.Time `json:"time"`
	Reason string    `json:"reason"`
	// By is a user, an account of the ACME server, "certificate key" or "server".
	By string `json:"by"`
	// Name is the Revocation; empty if the ACME server has only noted a client's request.
	// Then the certificate is accepted.
	Name string `json:"revocation,omitempty"`
}

// String returns the revocation in one phrase.
func (r Revocation) String() string {
	text := r.Time.UTC().Format(time.RFC3339) + ": " + r.Reason + ", by " + r.By
	if r.Name != "" {
		text += " (Revocation " + r.Name + ")"
	}
	return text
}

// Event is an event from a controller.
type Event struct {
	Time     time.Time `json:"time"`
	Type     string    `json:"type"`
	Reason   string    `json:"reason"`
	Reporter string    `json:"reporter"`
	Note     string    `json:"note"`
}

// Step is a next step with its commands.
type Step struct {
	Text     string     `json:"text"`
	Commands [][]string `json:"commands,omitempty"`
	// Input is what the last command reads.
	Input string `json:"input,omitempty"`
}

func step(text string, commands ...[]string) Step { return Step{Text: text, Commands: commands} }
