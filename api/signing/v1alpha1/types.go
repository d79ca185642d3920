// Package v1alpha1 is the protocol between certplane and the HTTPS endpoints
// that sign for it.
//
// For each attempt to get a certificate certplane POSTs a SigningRequest as
// JSON and reads a SigningResponse. docs/webhook-signer.md in this repository
// describes the conversation. The package needs the standard library alone.
//
// Within this version fields can be added to SigningRequest: an endpoint
// ignores those that it does not know. A SigningResponse has the fields below
// and no others.
package v1alpha1

import "time"

// What objects of this version say of themselves.
const (
	APIVersion   = "signing.certplane.dev/v1alpha1"
	RequestKind  = "SigningRequest"
	ResponseKind = "SigningResponse"
)

// ContentType is that of requests and answers.
const ContentType = "application/json"

// SigningRequest asks an endpoint for one certificate. Whoever had to approve
// it has done so.
type SigningRequest struct {
	// APIVersion is signing.certplane.dev/v1alpha1.
	APIVersion string `json:"apiVersion"`
	// Kind is SigningRequest.
	Kind string `json:"kind"`
	// UID is that of the CertificateSigningRequest, or of the
	// PodCertificateRequest. It is the same in every attempt: an endpoint that
	// has issued a certificate for it answers with that one again.
	UID string `json:"uid"`
	// Name is the name of that object.
	Name string `json:"name"`
	// SignerName is the signer that the requester chose.
	SignerName string `json:"signerName"`
	// Request is a PKCS#10 request in PEM, whose signature has been verified.
	Request string `json:"request"`
	// Usages are the approved usages, by the names that Kubernetes has for
	// them. The certificate must have no others.
	Usages []string `json:"usages"`
	// ExpirationSeconds is how long the requester wants the certificate to be
	// valid. Absent if it does not matter to it.
	ExpirationSeconds *int64 `json:"expirationSeconds,omitempty"`
	// MaxExpirationSeconds is how long the certificate may be valid at most,
	// from now on. It is never more than ExpirationSeconds, but for wishes
	// below the ten minutes that Kubernetes sets as a minimum.
	MaxExpirationSeconds int64 `json:"maxExpirationSeconds"`
	// Requester is who asks for the certificate, as the API server knows it.
	// For a pod it is the pod's service account.
	Requester Requester `json:"requester"`
	// Certificate is what the certificate must contain. Only signers that are
	// declared by a Signer object have it; without it, the subject and the
	// names are those of Request.
	Certificate *Certificate `json:"certificate,omitempty"`
	// Pod is the pod that the certificate is for, if UID and Name are those of
	// a PodCertificateRequest.
	Pod *Pod `json:"pod,omitempty"`
	// Deadline is when certplane stops waiting for the answer. A later answer
	// is lost; the next attempt asks again.
	Deadline time.Time `json:"deadline"`
}

// Requester is a user of the Kubernetes API.
type Requester struct {
	Username string              `json:"username"`
	UID      string              `json:"uid,omitempty"`
	Groups   []string            `json:"groups,omitempty"`
	Extra    map[string][]string `json:"extra,omitempty"`
}

// Certificate is what a Signer object's profile has made of a request. The
// endpoint's certificate must have just this subject and these names.
type Certificate struct {
	// Subject is the distinguished name in DER, base64 in JSON. It is that of
	// an empty name, 3000 in hexadecimal, if there is none.
	Subject        []byte   `json:"subject"`
	DNSNames       []string `json:"dnsNames,omitempty"`
	IPAddresses    []string `json:"ipAddresses,omitempty"`
	URIs           []string `json:"uris,omitempty"`
	EmailAddresses []string `json:"emailAddresses,omitempty"`
}

// Pod is a pod of the Kubernetes API with what it depends on. All of it has
// been compared with the objects.
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
	// Pending says that there is no certificate yet and that the same request
	// can get one later.
	Pending *Pending `json:"pending,omitempty"`
	// Failed says that the request will never get a certificate.
	Failed *Failed `json:"failed,omitempty"`
}

// Pending puts off the answer.
type Pending struct {
	// RetryAfterSeconds is when to ask again: at most a day. 0 is 10 seconds.
	RetryAfterSeconds int64 `json:"retryAfterSeconds,omitempty"`
	// Message tells the requester what it waits for. It should stay the same
	// while the reason does.
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
