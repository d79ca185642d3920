package apiserver

import (
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// LimitsConfig is the stanza "api.limits".
type LimitsConfig struct {
	// maxReading is how many requests that only read are worked on at the same
	// time. A request too many is answered 429 with a Retry-After header, and
	// clients come again. Watches do not count and are never refused; members
	// of system:masters are not refused either. 0 is no limit. Default: 400.
	MaxReading int `json:"maxReading"`
	// maxWriting is the same for requests that may change something, which
	// count on their own. Default: 400.
	MaxWriting int `json:"maxWriting"`
	// requestTimeout ends a request that takes longer, with the answer 504;
	// clients can ask for less. Watches do not count. A duration such as 60s.
	// Default: 60s.
	RequestTimeout metav1.Duration `json:"requestTimeout"`
}

func defaultLimits() LimitsConfig {
	return LimitsConfig{MaxReading: 400, MaxWriting: 400, RequestTimeout: metav1.Duration{Duration: time.Minute}}
}

func (c LimitsConfig) validate() error {
	if c.MaxReading < 0 {
		return fmt.Errorf("api.limits.maxReading: %d must not be negative", c.MaxReading)
	}
	if c.MaxWriting < 0 {
		return fmt.Errorf("api.limits.maxWriting: %d must not be negative", c.MaxWriting)
	}
	if c.RequestTimeout.Duration < time.Second {
		return fmt.Errorf("api.limits.requestTimeout: %s is too short: must be at least 1s", c.RequestTimeout.Duration)
	}
	return nil
}

func (c LimitsConfig) applyTo(generic *genericapiserver.Config) {
	generic.MaxRequestsInFlight = c.MaxReading
	generic.MaxMutatingRequestsInFlight = c.MaxWriting
	generic.RequestTimeout = c.RequestTimeout.Duration
	generic.BuildHandlerChainFunc = func(handler http.Handler, config *genericapiserver.Config) http.Handler {
		return genericapiserver.DefaultBuildHandlerChain(withBodyDeadline(handler), config)
	}
}

// bodyGrace lets the answer to a request that took too long come first.
const bodyGrace = time.Second

// withBodyDeadline stops waiting for the body of a request when the request
// has to end. The library stops waiting for the answer only, so that a body
// without an end would take up one of the places for requests for ever.
func withBodyDeadline(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Err() != nil {
			return // answered already, by the filter that watches the time
		}
		if deadline, limited := r.Context().Deadline(); limited && r.Body != nil {
			// Not every connection can; then it is as without.
			_ = http.NewResponseController(w).SetReadDeadline(deadline.Add(bodyGrace))
		}
		handler.ServeHTTP(w, r)
	})
}
