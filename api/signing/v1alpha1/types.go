// Package v1alpha1 is the protocol between certplane and the HTTPS endpoints
// that sign for it.
//
// For each attempt to get a certificate certplane POSTs a SigningRequest as
// JSON and reads a SigningResponse. docs/webhook-signer.md in this repository
// describes the conversation. The package depends only on the standard library.
//
// Within this version fields can be added to SigningRequest: an endpoint must ignore
// unknown fields. A SigningResponse must not contain other fields than those below.
package v1alpha1

import "time"

// The apiVersion and kinds of objects of this version.
const (
	APIVersion   = "signing.certplane.dev/v1alpha1"
	RequestKind  = "SigningRequest"
	ResponseKind = "SigningResponse"
)

// ContentType is the content type of requests and answers.
const ContentType = "application/json"

// SigningRequest asks an endpoint for one certificate. The request has been
// approved.
type SigningRequest struct {
	// APIVersion is signing.certplane.dev/v1alpha1.
	APIVersion string `json:"apiVersion"`
	// Kind is SigningRequest.
	Kind string `json:"kind"`
	// UID is the UID of the CertificateSigningRequest or PodCertificateRequest.
	// It is the same in every attempt: an endpoint that has issued a
	// certificate for it answers with the same certificate.
	UID string `json:"uid"`
	// Name is the name of that object.
	Name string `json:"name"`
	// SignerName is the signer that the requester chose.
	SignerName string `json:"signerName"`
	// Request is a PKCS#10 request in PEM, whose signature has been verified.
	Request string `json:"request"`
	// Usages are the approved usages, by their names in Kubernetes. The
	// certificate must have no others.
	Usages []string `json:"usages"`
	// ExpirationSeconds is how long the requester wants the certificate to be
	// valid. Absent if the requester sets none.
	ExpirationSeconds *int64 `json:"expirationSeconds,omitempty"`
	// MaxExpirationSeconds is the longest time that the certificate may be valid from now
	// on. It is never more than ExpirationSeconds, unless that is below the Kubernetes
	// minimum of ten minutes.
	MaxExpirationSeconds int64 `json:"maxExpirationSeconds"`
	// Requester is the user who requests the certificate, as authenticated by
	// the API server. For a pod it is the pod's service account.
	Requester Requester `json:"requester"`
	// Certificate is the required content of the certificate. It is set only for signers
	// that are declared by a Signer object; without it, the certificate gets the subject
	// and the names in Request.
	Certificate *Certificate `json:"certificate,omitempty"`
	// Pod is the pod that the certificate is for. Set only for PodCertificateRequests.
	Pod *Pod `json:"pod,omitempty"`
	// Deadline is when certplane stops waiting for the answer. A later answer
	// is lost; certplane then repeats the request.
	Deadline time.Time `json:"deadline"`
}

// Requester is a user of the Kubernetes API.
type Requester struct {
	Username string              `json:"username"`
	UID      string              `json:"uid,omitempty"`
	Groups   []string            `json:"groups,omitempty"`
	Extra    map[string][]string `json:"extra,omitempty"`
}

// Certificate is the result of a Signer object's profile for a request. The
// endpoint's certificate must have exactly this subject and these names.
type Certificate struct {
	// Subject is the distinguished name in DER, base64 in JSON. Without a
	// subject it is an empty name, 3000 in hexadecimal.
	Subject        []byte   `json:"subject"`
	DNSNames       []string `json:"dnsNames,omitempty"`
	IPAddresses    []string `json:"ipAddresses,omitempty"`
	URIs           []string `json:"uris,omitempty"`
	EmailAddresses []string `json:"emailAddresses,omitempty"`
}

// Pod is a pod of the Kubernetes API with the objects that it depends on. All
// fields have been compared with these objects.
type Pod struct {
	Namespace          string `json:"namespace"`
	Name               string `json:"name"`
	UID                string `json:"uid"`
	ServiceAccountName string `json:"serviceAccountName"`
	ServiceAccountUID  string `json:"serviceAccountUID"`
	NodeName           string `json:"nodeName"`
	NodeUID            string `json:"nodeUID"`
}

// SigningResponse is an endpoint's answer. Exactly one of Certificate,
// Pending and Failed is set.
type SigningResponse struct {
	// APIVersion is signing.certplane.dev/v1alpha1.
	APIVersion string `json:"apiVersion"`
	// Kind is SigningResponse.
	Kind string `json:"kind"`
	// UID is the UID of the request.
	UID string `json:"uid"`
	// Certificate is the certificate in PEM, followed by the CAs that link it
	// to its root, each issued by the next.
	Certificate string `json:"certificate,omitempty"`
	// Pending is set if the certificate is not issued yet, and the same request can succeed
	// later.
	Pending *Pending `json:"pending,omitempty"`
	// Failed is set if the request will never get a certificate.
	Failed *Failed `json:"failed,omitempty"`
}

// Pending postpones the answer.
type Pending struct {
	// RetryAfterSeconds is how long to wait before the next attempt: at most a
	// day. 0 means 10 seconds.
	RetryAfterSeconds int64 `json:"retryAfterSeconds,omitempty"`
	// Message tells the requester what the request waits for. It should not
	// change while the reason is the same.
	Message string `json:"message,omitempty"`
}

// Failed ends a request.
type Failed struct {
	// Reason is one word in CamelCase, at most 64 characters. It becomes the
	// reason of the Failed condition.
	Reason string `json:"reason"`
	// Message tells the requester what is wrong with the request.
	Message string `json:"message"`
}

// Issued answers r with a certificate and its chain in PEM.
func (r *SigningRequest) Issued(chain []byte) *SigningResponse {
	response := r.response()
	response.Certificate = string(chain)
	return response
}

// Refused answers r with a reason why there will never be a certificate.
func (r *SigningRequest) Refused(reason, message string) *SigningResponse {
	response := r.response()
	response.Failed = &Failed{Reason: reason, Message: message}
	return response
}

// Postponed answers r with when to ask again. Parts of a second are rounded up.
func (r *SigningRequest) Postponed(retryAfter time.Duration, message string) *SigningResponse {
	response := r.response()
	seconds := (retryAfter + time.Second - 1) / time.Second
	response.Pending = &Pending{RetryAfterSeconds: int64(seconds), Message: message}
	return response
}

func (r *SigningRequest) response() *SigningResponse {
	return &SigningResponse{APIVersion: APIVersion, Kind: ResponseKind, UID: r.UID}
}
