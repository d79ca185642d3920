// Package revocationwebhook answers the authorization webhook of a kube-apiserver that
// refuses users of revoked client certificates.
//
// It denies or has no opinion, and never allows anything. A kube-apiserver retries answers
// with the status 429 or 5xx, and each retry delays a request of a user: no answer has one.
package revocationwebhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/revocation"
)

// Path is the path of the webhook.
const Path = "/revocation/v1/authorize"

const (
	// CredentialID is the key in a user's extra fields under which API servers put what the
	// user was authenticated with, Certificate the beginning of the values of client
	// certificates: after it comes the SHA-256 digest of the certificate in hexadecimal.
	CredentialID = "authentication.kubernetes.io/credential-id"
	Certificate  = "X509SHA256="
)

const (
	// maxBody is the largest review that is read, in bytes. It must not be less than what an
	// API server sends, or else the holder of a revoked certificate could send requests
	// about which the webhook is not heard: a label selector of 1 MiB, the most that a
	// request can have, is 16 MiB in a review.
	maxBody = 32 << 20
	// smallBody is the size of other reviews, and maxLarge is how many larger ones are read
	// at the same time: they need memory.
	smallBody, maxLarge = 64 << 10, 8
)

// Revoked returns the revocation of the certificate with a fingerprint.
type Revoked func(revocation.Digest) (revocation.Revoked, bool)

// Handler answers reviews. It is safe for concurrent use.
type Handler struct {
	revoked Revoked
	now     func() time.Time
	metrics *Metrics
	large   chan struct{}
}

// New returns a handler that looks certificates up with revoked and counts in metrics.
func New(revoked Revoked, now func() time.Time, metrics *Metrics) *Handler {
	return &Handler{revoked, now, metrics, make(chan struct{}, maxLarge)}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != Path {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "this is an authorization webhook: POST a SubjectAccessReview", http.StatusMethodNotAllowed)
		return
	}
	begin := h.now()
	answered := unknown
	ids, err := h.read(r)
	if err != nil {
		answered = malformed
		klog.FromContext(r.Context()).V(2).Info("Refused a request that is not a SubjectAccessReview", "from", r.RemoteAddr, "problem", err)
		http.Error(w, err.Error(), http.StatusBadRequest)
	} else {
		status := authorizationv1.SubjectAccessReviewStatus{}
		if revoked, ok := h.anyRevoked(ids); ok {
			answered = denied
			status.Denied, status.Reason = true, fmt.Sprintf("the client certificate was revoked on %s: %s", revoked.Time.UTC().Format(time.RFC3339), revoked.Reason)
		}
		write(w, r, status)
	}
	h.metrics.answered(answered, h.now().Sub(begin))
}

// anyRevoked returns the first revocation of a user's certificates.
func (h *Handler) anyRevoked(ids []string) (revocation.Revoked, bool) {
	for _, id := range ids {
		text, ok := strings.CutPrefix(id, Certificate)
		if !ok {
			continue
		}
		// A credential ID without a digest is not a certificate: users who may impersonate others can send
		// any text.
		if digest, ok := revocation.ParseDigest(text); ok {
			if revoked, ok := h.revoked(digest); ok {
				return revoked, true
			}
		}
	}
	return revocation.Revoked{}, false
}

var (
	errEnded    = errors.New("the body ended too early")
	errTooLarge = fmt.Errorf("the body is larger than %d bytes", maxBody)
)

// read returns the credential IDs of the user in a review. A large review waits until few
// enough others are read.
func (h *Handler) read(r *http.Request) ([]string, error) {
	var body bytes.Buffer
	if _, err := io.CopyN(&body, r.Body, smallBody); err == nil {
		select {
		case h.large <- struct{}{}:
			defer func() { <-h.large }()
		case <-r.Context().Done():
			return nil, errEnded
		}
		body.Grow(int(min(max(r.ContentLength, 0), maxBody)))
		if n, err := io.Copy(&body, io.LimitReader(r.Body, maxBody-smallBody+1)); err != nil {
			return nil, errEnded
		} else if n > maxBody-smallBody {
			return nil, errTooLarge
		}
	} else if !errors.Is(err, io.EOF) {
		return nil, errEnded
	}
	return parse(body.Bytes())
}

var reviewKind = metav1.TypeMeta{APIVersion: authorizationv1.SchemeGroupVersion.String(), Kind: "SubjectAccessReview"}

// subjects are the keys of what a request is about, where API servers write them.
var subjects = [][]byte{[]byte(`"spec":{"resourceAttributes":`), []byte(`"spec":{"nonResourceAttributes":`)}

// compact removes from a review what the request is about. Of a large review it is nearly
// everything, and decoding that would take longer than API servers wait.
func compact(review []byte) []byte {
	for _, key := range subjects {
		before, after, found := bytes.Cut(review, key)
		if !found {
			continue
		}
		if end := objectEnd(after); end > 0 {
			return slices.Concat(before, key, []byte("null"), after[end:])
		}
	}
	return review
}

// objectEnd returns where the JSON object ends with which a text begins; 0 if there is none.
func objectEnd(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if depth == 0 && i < len(text) && text[i] == '}' {
			return i + 1
		}
		if depth <= 0 {
			return 0
		}
	}
	return 0
}

// parse reads only what is needed of a review.
func parse(body []byte) ([]string, error) {
	var review struct {
		metav1.TypeMeta
		Spec *struct {
			Extra map[string][]string `json:"extra"`
		} `json:"spec"`
	}
	switch err := json.Unmarshal(compact(body), &review); {
	case err != nil:
		return nil, fmt.Errorf("the body is not a SubjectAccessReview: %w", err)
	case review.TypeMeta != reviewKind:
		return nil, fmt.Errorf("the body must be of kind SubjectAccessReview and apiVersion %s, not %.64q and %.64q", reviewKind.APIVersion, review.Kind, review.APIVersion)
	case review.Spec == nil:
		return nil, errors.New("the SubjectAccessReview has no spec")
	}
	return review.Spec.Extra[CredentialID], nil
}

func write(w http.ResponseWriter, r *http.Request, status authorizationv1.SubjectAccessReviewStatus) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(authorizationv1.SubjectAccessReview{TypeMeta: reviewKind, Status: status}); err != nil {
		klog.FromContext(r.Context()).V(2).Info("An API server has not waited for its answer", "err", err)
	}
}
