package admissionwebhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/tenant/connections"
	"github.com/certplane/certplane/internal/tenant/fairshare"
)

const (
	// maxBody is the largest review that is read, in bytes. API servers accept
	// requests of 3 MiB; a review has both the old and the new object.
	maxBody = 7 << 20
	// answerTimeout limits the work on one review. API servers wait for at most
	// 30 s.
	answerTimeout = 30 * time.Second
	// bodyTimeout is how long the body of a review may take to arrive. API
	// servers have all of it before they connect.
	bodyTimeout = 2 * time.Second
	// maxAtOnce is how many reviews are processed at the same time, and
	// maxAtOnceFrom how many of one address. Others wait; the address with the
	// fewest is next.
	maxAtOnce, maxAtOnceFrom = 32, 16
	// maxBodies limits the reviews in memory, in bytes, and maxBodiesFrom those
	// of one address. Each address always has guaranteedBody.
	maxBodies, maxBodiesFrom, guaranteedBody = 128 << 20, 64 << 20, 64 << 10
)

// decide answers a review.
type decide func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse

// reviewer implements the protocol of admission webhooks. If it cannot read a
// review, it answers with an HTTP error, which API servers treat as a failed
// webhook.
type reviewer struct {
	decide  decide
	metrics *Metrics
	places  *fairshare.Places
	bodies  *fairshare.Budget
}

func newReviewer(decide decide, metrics *Metrics) *reviewer {
	return &reviewer{
		decide: decide, metrics: metrics,
		places: fairshare.NewPlaces(maxAtOnce, maxAtOnceFrom),
		bodies: fairshare.NewBudget(maxBodies, maxBodiesFrom, guaranteedBody),
	}
}

// sender returns the address that a review comes from: any client that can
// reach the webhook can send reviews, and shares its capacity with the API
// servers.
func sender(r *http.Request) fairshare.Tenant {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return fairshare.Tenant{Class: connections.Address, Name: host}
}

// ServeHTTP implements http.Handler.
func (v *reviewer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	begin := time.Now()
	resource, result := v.answer(ctx, w, r)
	v.metrics.reviewed(r.URL.Path, resource, result, time.Since(begin))
}

// answer answers a review, and returns its resource and result for the metrics.
// A review takes a place when its body is complete, so that slow senders hold
// none.
func (v *reviewer) answer(ctx context.Context, w http.ResponseWriter, r *http.Request) (metav1.GroupVersionResource, string) {
	from := sender(r)
	body := &arriving{budget: v.bodies, from: from}
	defer body.release()
	asked, problem := read(w, r, body)
	if problem != nil {
		klog.FromContext(ctx).V(2).Info("Refused a request that is not an AdmissionReview", "path", r.URL.Path, "from", r.RemoteAddr, "problem", problem.text)
		http.Error(w, problem.text, problem.code)
		return metav1.GroupVersionResource{}, failed
	}
	leave, err := v.places.Take(ctx, from)
	if err != nil {
		http.Error(w, "too many reviews at once: try again", http.StatusServiceUnavailable)
		return asked.Resource, failed
	}
	response := v.decide(ctx, asked)
	leave()
	response.UID = asked.UID
	write(ctx, w, response)
	if response.Allowed {
		return asked.Resource, allowed
	}
	return asked.Resource, refused
}

// httpError is why a body is not a review.
type httpError struct {
	code int
	text string
}

// errNoRoom means that too many reviews of one address are in memory.
var errNoRoom = errors.New("too many reviews at once")

// arriving is the body of a review while it arrives.
type arriving struct {
	bytes.Buffer
	budget *fairshare.Budget
	from   fairshare.Tenant
	taken  int64
}

// Write implements io.Writer.
func (a *arriving) Write(data []byte) (int, error) {
	if !a.budget.Take(a.from, int64(len(data))) {
		return 0, errNoRoom
	}
	a.taken += int64(len(data))
	return a.Buffer.Write(data)
}

func (a *arriving) release() { a.budget.Give(a.from, a.taken) }

func read(w http.ResponseWriter, r *http.Request, body *arriving) (*admissionv1.AdmissionRequest, *httpError) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, &httpError{http.StatusMethodNotAllowed, "this is an admission webhook: POST an AdmissionReview"}
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, &httpError{http.StatusUnsupportedMediaType, "the Content-Type must be application/json"}
	}
	// Connections without support for deadlines have no time limit.
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
	_, err := io.Copy(writerOnly{body}, http.MaxBytesReader(w, r.Body, maxBody))
	_ = control.SetReadDeadline(time.Now().Add(answerTimeout))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, &httpError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", maxBody)}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &httpError{http.StatusRequestTimeout, fmt.Sprintf("the body was not there within %v", bodyTimeout)}
	case errors.Is(err, errNoRoom):
		return nil, &httpError{http.StatusServiceUnavailable, errNoRoom.Error() + ": try again"}
	case err != nil:
		return nil, &httpError{http.StatusBadRequest, "the body ended too early"}
	}
	return parse(body.Bytes())
}

// writerOnly hides that a buffer has ReadFrom, which would bypass our Write.
type writerOnly struct{ io.Writer }

var reviewKind = metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}

func parse(body []byte) (*admissionv1.AdmissionRequest, *httpError) {
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil {
		return nil, &httpError{http.StatusBadRequest, "the body is not an AdmissionReview: " + err.Error()}
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
