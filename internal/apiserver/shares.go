package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"

	"github.com/certplane/certplane/internal/tenant"
	"github.com/certplane/certplane/internal/tenant/connections"
	"github.com/certplane/certplane/internal/tenant/fairshare"
)

const (
	// maxWait is how long a request waits for a place.
	maxWait = 10 * time.Second
	// retrySeconds is after how many seconds a refused client may retry.
	retrySeconds = 1
	// maxAnonymousQuery bounds what health endpoints repeat of the query of an
	// unauthenticated client.
	maxAnonymousQuery = 256
)

// withShares handles a request when its tenant may have one more. It runs after
// authentication and authorization: requests that they refuse take no place.
func (l *limiter) withShares(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Err() != nil {
			return // already answered by the timeout filter
		}
		who := tenantOf(r.Context())
		l.assignConnection(r, who)
		info, _ := apirequest.RequestInfoFrom(r.Context())
		switch {
		case l.generic.LongRunningFunc(r, info):
			l.serveWatch(handler, w, r, who)
		case isProbe(r.URL.Path):
			l.serveProbe(handler, w, r, who)
		case isOwnCall(r.Context()):
			l.serveOwn(handler, w, r)
		case who == tenant.Exempt:
			if deadline, limited := r.Context().Deadline(); limited {
				answerTo(r).setReadDeadline(deadline.Add(timeoutGrace))
			}
			handler.ServeHTTP(w, r)
		default:
			l.serveShare(handler, w, r, who, kindOf(info))
		}
	})
}

// serveOwn handles a call of one of the process's own parts, for which it has a limited time.
// The end of the server waits for it.
func (l *limiter) serveOwn(handler http.Handler, w http.ResponseWriter, r *http.Request) {
	if err := l.generic.NonLongRunningRequestWaitGroup.Add(1); err != nil {
		w.Header().Set("Retry-After", strconv.Itoa(retrySeconds))
		http.Error(w, "the server is stopping", http.StatusServiceUnavailable)
		return
	}
	defer l.generic.NonLongRunningRequestWaitGroup.Done()
	ctx, cancel := context.WithTimeout(r.Context(), l.cfg.RequestTimeout.Duration)
	defer cancel()
	handler.ServeHTTP(w, r.WithContext(ctx))
}

// assignConnection assigns the connection of a request to its tenant.
func (l *limiter) assignConnection(r *http.Request, who fairshare.Tenant) {
	local, known := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !known || who.Class == tenant.ClassAnonymous {
		return
	}
	holder := connections.Holder(who)
	if who == tenant.Exempt {
		holder = connections.Exempt
	}
	l.connections.Assign(local.String(), r.RemoteAddr, holder)
}

// isProbe reports whether a path answers immediately and must always be served.
func isProbe(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return slices.Contains([]string{"livez", "readyz", "healthz", "version"}, first)
}

func (l *limiter) serveProbe(handler http.Handler, w http.ResponseWriter, r *http.Request, who fairshare.Tenant) {
	if who.Class == tenant.ClassAnonymous && len(r.URL.RawQuery) > maxAnonymousQuery {
		l.metrics.refused.WithLabelValues("query", who.Class).Inc()
		http.Error(w, fmt.Sprintf("the query has more than %d bytes, which takes credentials", maxAnonymousQuery), http.StatusRequestURITooLong)
		return
	}
	handler.ServeHTTP(w, r)
}

func (l *limiter) serveWatch(handler http.Handler, w http.ResponseWriter, r *http.Request, who fairshare.Tenant) {
	if who != tenant.Exempt {
		if !l.watches.Take(who, 1) {
			l.refuse(w, r, who, "maxWatchesPerTenant", fmt.Sprintf("%s may have %d watches at the same time", tenant.Describe(who), l.cfg.MaxWatchesPerTenant))
			return
		}
		defer l.watches.Give(who, 1)
	}
	watching := l.metrics.watches.WithLabelValues(who.Class)
	watching.Inc()
	defer watching.Dec()
	if answer := answerTo(r); answer != nil {
		answer.setDeadlines(time.Time{}) // it may last long
		answer.gate = &l.events
	}
	handler.ServeHTTP(w, r)
}

// kind is one of the two kinds of places.
type kind string

const (
	readingKind kind = "reading"
	writingKind kind = "writing"
)

// kindOf works as in the library: a request that is not known to be read-only
// may write.
func kindOf(info *apirequest.RequestInfo) kind {
	if slices.Contains([]string{"get", "list", "watch"}, info.Verb) {
		return readingKind
	}
	return writingKind
}

func (l *limiter) places(k kind) (places *fairshare.Places, setting string) {
	if k == readingKind {
		return l.reading, "maxReading"
	}
	return l.writing, "maxWriting"
}

// serveShare takes the request's share of the limits: one open request, room
// for the body while it arrives, and then a place until the response begins.
func (l *limiter) serveShare(handler http.Handler, w http.ResponseWriter, r *http.Request, who fairshare.Tenant, k kind) {
	if !l.open.Take(who, 1) {
		l.refuse(w, r, who, "maxOpenPerTenant", fmt.Sprintf("%s may have %d requests under way at the same time", tenant.Describe(who), l.cfg.MaxOpenPerTenant))
		return
	}
	defer l.open.Give(who, 1)
	if k == writingKind {
		arrived, err := l.receive(r, who)
		defer arrived.release()
		if err != nil {
			l.refuseBody(w, r, who, err)
			return
		}
	}
	leave, err := l.takePlace(r.Context(), who, k)
	if err != nil {
		_, setting := l.places(k)
		l.refuse(w, r, who, setting, fmt.Sprintf("%s has waited %s for a place for %s (see also api.limits.maxPerTenant)", tenant.Describe(who), maxWait, k))
		return
	}
	defer leave()
	l.withAnswerRoom(handler, responsewriter.WrapForHTTP1Or2(&leavingWriter{w, leave}), r, who)
}

func (l *limiter) takePlace(ctx context.Context, who fairshare.Tenant, k kind) (leave func(), err error) {
	places, _ := l.places(k)
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	waiting := l.metrics.waiting.WithLabelValues(string(k), who.Class)
	waiting.Inc()
	give, err := places.Take(ctx, who)
	waiting.Dec()
	if err != nil {
		return nil, err
	}
	inUse := l.metrics.places.WithLabelValues(string(k), who.Class)
	inUse.Inc()
	return sync.OnceFunc(func() { inUse.Dec(); give() }), nil
}

// leavingWriter releases the place when the response begins: the work is done,
// and how fast the client reads it does not matter.
type leavingWriter struct {
	http.ResponseWriter
	leave func()
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (w *leavingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements io.Writer.
func (w *leavingWriter) Write(data []byte) (int, error) {
	w.leave()
	return w.ResponseWriter.Write(data)
}

// refuse answers that a setting allows no more requests.
func (l *limiter) refuse(w http.ResponseWriter, r *http.Request, who fairshare.Tenant, setting, problem string) {
	info, _ := apirequest.RequestInfoFrom(r.Context())
	metrics.RecordDroppedRequest(r, info, metrics.APIServerComponent, kindOf(info) == writingKind)
	err := apierrors.NewTooManyRequests(fmt.Sprintf("too many requests: %s (api.limits.%s); try again later", problem, setting), retrySeconds)
	l.fail(w, r, who, setting, err)
}

// refuseBody answers a request whose body has not arrived.
func (l *limiter) refuseBody(w http.ResponseWriter, r *http.Request, who fairshare.Tenant, err error) {
	switch {
	case r.Context().Err() != nil: // already answered
	case errors.Is(err, os.ErrDeadlineExceeded):
		l.fail(w, r, who, "bodyTimeout", &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusRequestTimeout, Reason: metav1.StatusReasonTimeout,
			Message: fmt.Sprintf("the body of the request was not there within %s (api.limits.bodyTimeout)", l.cfg.BodyTimeout.Duration),
		}})
	default:
		l.refuse(w, r, who, "maxBodyMiB", fmt.Sprintf("the bodies of requests under way of %s, or of all together, are too large (see also api.limits.maxBodyMiBPerTenant)", tenant.Describe(who)))
	}
}

func (l *limiter) fail(w http.ResponseWriter, r *http.Request, who fairshare.Tenant, setting string, err *apierrors.StatusError) {
	info, _ := apirequest.RequestInfoFrom(r.Context())
	metrics.RecordRequestTermination(r, info, metrics.APIServerComponent, int(err.ErrStatus.Code))
	l.metrics.refused.WithLabelValues(setting, who.Class).Inc()
	responsewriters.ErrorNegotiated(err, l.generic.Serializer, schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}, w, r)
}
