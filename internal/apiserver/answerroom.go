package apiserver

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/storage"

	"github.com/certplane/certplane/internal/tenant"
	"github.com/certplane/certplane/internal/tenant/fairshare"
)

const (
	// guaranteedAnswer is the room that each tenant has for answers even if the shared
	// budget is used up: enough to encode an object of some KiB in any format.
	guaranteedAnswer = 1 << 20
	// maxStoreLists is the number of lists that are read from the store at the same time,
	// and maxStoreListsPerTenant the number for one tenant. The memory that a list takes is
	// not known before it is read.
	maxStoreLists, maxStoreListsPerTenant = 8, 2
)

// weight is an estimate of the memory that an answer takes. The numbers are measured and
// include the garbage that remains until the next collection.
type weight struct {
	// of describes the work that takes the memory, for messages.
	of string
	// perByte and perObject are the memory for each byte and for each object.
	perByte, perObject int64
	// metadataOnly means that only the metadata of objects counts.
	metadataOnly bool
}

// The library encodes these formats as a whole. It writes other formats object by object,
// and objects in watch caches are shared: such lists take almost no memory.
var (
	inYAML    = weight{of: "encoding the answer as YAML", perByte: 25, perObject: 12 << 10}
	inPretty  = weight{of: "encoding the answer as JSON with line breaks (pretty)", perByte: 10, perObject: 2 << 10}
	inTable   = weight{of: "encoding the answer as a table", perByte: 6, perObject: 3 << 10}
	fromStore = weight{of: "a list that the watch cache does not have", perByte: 2, perObject: 1 << 10}
)

// weightOfFormat returns the weight of the format of a request's answer.
func weightOfFormat(r *http.Request, serializer runtime.NegotiatedSerializer) (format weight) {
	options, info, err := negotiation.NegotiateOutputMediaType(r, serializer, anyTransform{negotiation.DefaultEndpointRestrictions})
	if err != nil {
		return format // the answer is this error
	}
	switch {
	case info.MediaType == runtime.ContentTypeYAML:
		format = inYAML
	case info.PrettySerializer != nil && info.Serializer == info.PrettySerializer:
		format = inPretty
	}
	if options.Convert == nil || options.Convert.Kind != "Table" {
		return format
	}
	if format.of == "" {
		format = inTable
	}
	format.metadataOnly = r.URL.Query().Get("includeObject") != string(metav1.IncludeObject)
	return format
}

// anyTransform accepts all forms of answers that any resource has.
type anyTransform struct {
	negotiation.EndpointRestrictions
}

// AllowsMediaTypeTransform implements negotiation.EndpointRestrictions.
func (anyTransform) AllowsMediaTypeTransform(string, string, *schema.GroupVersionKind) bool {
	return true
}

// answerRoom is the memory that the answer to one request takes.
// The goroutine that handles the request uses it.
type answerRoom struct {
	limiter *limiter
	tenant  fairshare.Tenant
	request *http.Request
	taken   int64
}

type answerRoomKey struct{}

// withAnswerRoom handles a request. The room is given back when the handler has ended,
// which can be later than the request.
func (l *limiter) withAnswerRoom(handler http.Handler, w http.ResponseWriter, r *http.Request, tenant fairshare.Tenant) {
	room := &answerRoom{limiter: l, tenant: tenant, request: r}
	defer room.release()
	handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), answerRoomKey{}, room)))
}

// answerRoomOf returns the room of a request, or nil if it is not limited.
func answerRoomOf(ctx context.Context) *answerRoom {
	room, _ := ctx.Value(answerRoomKey{}).(*answerRoom)
	return room
}

// takeInFormat takes the room for encoding object in the format of the answer. Requests
// that read nothing never get here, so they do not negotiate twice.
func (a *answerRoom) takeInFormat(ctx context.Context, object runtime.Object) error {
	return a.takeFor(ctx, weightOfFormat(a.request, a.limiter.generic.Serializer), object)
}

// takeFor takes the room for an answer with object, which can be a list. It fails if not
// enough room is free, or if the request has already ended.
func (a *answerRoom) takeFor(ctx context.Context, what weight, object runtime.Object) error {
	if what.of == "" {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return a.take(what.of, what.weigh(object))
}

func (a *answerRoom) take(of string, n int64) error {
	limits := a.limiter.cfg
	if most := int64(limits.MaxAnswerMiBPerTenant) << 20; most > 0 && n > most {
		a.limiter.metrics.refused.WithLabelValues("maxAnswerMiBPerTenant", a.tenant.Class).Inc()
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusRequestEntityTooLarge, Reason: metav1.StatusReasonRequestEntityTooLarge,
			Message: fmt.Sprintf("%s takes about %d MiB of memory, and a tenant has %d MiB (api.limits.maxAnswerMiBPerTenant): list a part at a time with the parameter limit, as application/json",
				of, n>>20, limits.MaxAnswerMiBPerTenant),
		}}
	}
	if !a.limiter.answers.Take(a.tenant, n) {
		a.limiter.metrics.refused.WithLabelValues("maxAnswerMiB", a.tenant.Class).Inc()
		return apierrors.NewTooManyRequests(fmt.Sprintf("too many requests: %s takes memory, and the answers of %s, or of all together, take too much (api.limits.maxAnswerMiB, api.limits.maxAnswerMiBPerTenant); try again later",
			of, tenant.Describe(a.tenant)), retrySeconds)
	}
	a.taken += n
	a.limiter.metrics.answers.WithLabelValues(a.tenant.Class).Add(float64(n))
	return nil
}

func (a *answerRoom) release() {
	a.limiter.answers.Give(a.tenant, a.taken)
	a.limiter.metrics.answers.WithLabelValues(a.tenant.Class).Sub(float64(a.taken))
	a.taken = 0
}

// weigh returns about how much memory object takes.
func (m weight) weigh(object runtime.Object) int64 {
	if !meta.IsListType(object) {
		return m.perObject + m.perByte*m.sizeOf(object)
	}
	total := int64(0)
	_ = meta.EachListItem(object, func(item runtime.Object) error {
		total += m.perObject + m.perByte*m.sizeOf(item)
		return nil
	})
	return total
}

func (m weight) sizeOf(object runtime.Object) int64 {
	if _, loose := object.(*unstructured.Unstructured); !m.metadataOnly || loose { // columns can have any field of it
		return sizeOf(object)
	}
	if o, ok := object.(metav1.ObjectMetaAccessor); ok {
		if own, ok := o.GetObjectMeta().(*metav1.ObjectMeta); ok {
			return int64(own.Size())
		}
	}
	return sizeOf(object)
}

// weighedStore takes the room for answers that contain the objects it reads.
type weighedStore struct {
	storage.Interface
	uncached bool
}

func (s weighedStore) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	if err := s.Interface.Get(ctx, key, opts, out); err != nil {
		return err
	}
	room := answerRoomOf(ctx)
	if room == nil {
		return nil
	}
	return room.takeInFormat(ctx, out)
}

func (s weighedStore) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	room := answerRoomOf(ctx)
	switch {
	case room == nil:
		return s.Interface.GetList(ctx, key, opts, list)
	case s.uncached || pastCache(opts):
		if err := room.readFromStore(ctx, func() error { return s.Interface.GetList(ctx, key, opts, list) }); err != nil {
			return err
		}
		if err := room.takeFor(ctx, fromStore, list); err != nil {
			return err
		}
	default:
		if err := s.Interface.GetList(ctx, key, opts, list); err != nil {
			return err
		}
	}
	return room.takeInFormat(ctx, list)
}

// pastCache reports whether watch caches do not answer a list, as the library decides it
// (delegator.ShouldDelegateList).
func pastCache(opts storage.ListOptions) bool {
	old := opts.Predicate.Limit > 0 && opts.ResourceVersion != "" && opts.ResourceVersion != "0"
	return opts.Predicate.Continue != "" || opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact || opts.ResourceVersionMatch == "" && old
}

// readFromStore calls read when the tenant may read one more list from the store.
func (a *answerRoom) readFromStore(ctx context.Context, read func() error) error {
	waiting, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	leave, err := a.limiter.storeLists.Take(waiting, a.tenant)
	if err != nil {
		a.limiter.metrics.refused.WithLabelValues("maxAnswerMiB", a.tenant.Class).Inc()
		return apierrors.NewTooManyRequests(fmt.Sprintf("too many requests: %s has waited %s for other lists that the watch cache cannot answer; try again later",
			tenant.Describe(a.tenant), maxWait), retrySeconds)
	}
	defer leave()
	return read()
}
