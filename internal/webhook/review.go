package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/klog/v2"
)

const (
	// maxBody is the largest review that is read, in bytes. API servers take
	// requests of 3 MiB; a review has the object as it was and as it is to be.
	maxBody = 7 << 20
	// answerTimeout bounds the work on one review. API servers wait 30 s at most.
	answerTimeout = 30 * time.Second
	// maxAtOnce is how many reviews are in memory at a time. Others wait.
	maxAtOnce = 32
)

// decide answers a review.
type decide func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse

// reviewer speaks the protocol of admission webhooks. What it cannot read it
// answers with an HTTP error, which API servers take for a failed webhook.
type reviewer struct {
	decide  decide
	metrics *Metrics
	slots   chan struct{}
}

func newReviewer(decide decide, metrics *Metrics) *reviewer {
	return &reviewer{decide, metrics, make(chan struct{}, maxAtOnce)}
}

// ServeHTTP implements http.Handler.
func (v *reviewer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	begin := time.Now()
	resource, result := v.answer(ctx, w, r)
	v.metrics.reviewed(r.URL.Path, resource, result, time.Since(begin))
}

// answer tells what became of which review.
func (v *reviewer) answer(ctx context.Context, w http.ResponseWriter, r *http.Request) (metav1.GroupVersionResource, string) {
	select {
	case v.slots <- struct{}{}:
		defer func() { <-v.slots }()
	case <-ctx.Done():
		http.Error(w, "too many reviews at once: try again", http.StatusServiceUnavailable)
		return metav1.GroupVersionResource{}, failed
	}
	asked, problem := read(w, r)
	if problem != nil {
		klog.FromContext(ctx).V(2).Info("Refused what is no AdmissionReview", "path", r.URL.Path, "from", r.RemoteAddr, "problem", problem.text)
		http.Error(w, problem.text, problem.code)
		return metav1.GroupVersionResource{}, failed
	}
	response := v.decide(ctx, asked)
	response.UID = asked.UID
	write(ctx, w, response)
	if response.Allowed {
		return asked.Resource, allowed
	}
	return asked.Resource, refused
}

// httpError is why a body is no review.
type httpError struct {
	code int
	text string
}

func read(w http.ResponseWriter, r *http.Request) (*admissionv1.AdmissionRequest, *httpError) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, &httpError{http.StatusMethodNotAllowed, "this is an admission webhook: POST an AdmissionReview"}
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, &httpError{http.StatusUnsupportedMediaType, "the Content-Type must be application/json"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, &httpError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", maxBody)}
	}
	if err != nil {
		return nil, &httpError{http.StatusBadRequest, "the body ended too early"}
	}
	return parse(body)
}

var reviewKind = metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}

func parse(body []byte) (*admissionv1.AdmissionRequest, *httpError) {
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil {
		return nil, &httpError{http.StatusBadRequest, "the body is no AdmissionReview: " + err.Error()}
	}
	switch {
	case review.TypeMeta != reviewKind:
		return nil, &httpError{http.StatusBadRequest, fmt.Sprintf("the body must be of kind AdmissionReview and apiVersion %s, not %q and %q",
			reviewKind.APIVersion, review.Kind, review.APIVersion)}
	case review.Request == nil:
		return nil, &httpError{http.StatusBadRequest, "the AdmissionReview has no request"}
	case review.Request.UID == "":
		return nil, &httpError{http.StatusBadRequest, "the AdmissionReview has no request.uid"}
	}
	return review.Request, nil
}

func write(ctx context.Context, w http.ResponseWriter, response *admissionv1.AdmissionResponse) {
	data, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: reviewKind, Response: response})
	if err != nil {
		http.Error(w, "the answer cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(data); err != nil {
		klog.FromContext(ctx).V(2).Info("An API server has not waited for its answer", "err", err)
	}
}
