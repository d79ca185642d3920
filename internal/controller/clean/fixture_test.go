package clean

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// fixture has the parts of the cleaner with an in-memory API.
type fixture struct {
	t *testing.T
	// api is the API as other clients see it.
	api client.WithWatch
	// cache is what the cleaner reads; it can be stale.
	cache client.WithWatch
	// failure is what deletes return, if not nil.
	failure error
	deletes atomic.Int64

	settings Settings
	clock    *clocktesting.FakePassiveClock
	registry *prometheus.Registry
	events   *events.FakeRecorder
	log      strings.Builder
	quota    *quota
	// recorded is what reports whether a request may be deleted.
	recorded func(kind string, request types.UID) bool
	kept     *deleter
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	f := &fixture{
		t: t, settings: DefaultSettings(), clock: clocktesting.NewFakePassiveClock(now),
		registry: prometheus.NewRegistry(), events: events.NewFakeRecorder(100),
	}
	f.api = f.newAPI(objects...)
	f.cache = f.api
	return f
}

func (f *fixture) newAPI(objects ...client.Object) client.WithWatch {
	f.t.Helper()
	scheme := runtime.NewScheme()
	if err := certificatesv1.AddToScheme(scheme); err != nil {
		f.t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&csr{}).WithObjects(objects...).Build()
}

func (f *fixture) deleter() *deleter {
	if f.kept != nil {
		return f.kept
	}
	metrics, err := newMetrics(f.registry)
	if err != nil {
		f.t.Fatal(err)
	}
	counted := interceptor.NewClient(f.api, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			f.deletes.Add(1)
			if f.failure != nil {
				return f.failure
			}
			return c.Delete(ctx, o, opts...)
		},
	})
	f.kept = &deleter{client: counted, report: reporter{metrics: metrics, events: f.events}, await: newRecordWait(f.recorded, f.clock)}
	return f.kept
}

// retain runs the expirer once on a request.
func (f *fixture) retain(name string) (reconcile.Result, error) {
	f.t.Helper()
	r := &expirer{cache: f.cache, clock: f.clock, limits: f.settings.limits(), deleter: f.deleter()}
	return r.Reconcile(f.context(), named(name))
}

// count runs the quota once on a requester, after it has seen the requester's
// requests.
func (f *fixture) count(requester string) (reconcile.Result, error) {
	f.t.Helper()
	if f.quota == nil {
		f.quota = &quota{
			cache: f.cache, clock: f.clock, limit: f.settings.cap(),
			index: newRequesterIndex(f.settings.PerRequester.ExemptGroups), deleter: f.deleter(),
		}
		var list certificatesv1.CertificateSigningRequestList
		if err := f.api.List(f.t.Context(), &list); err != nil {
			f.t.Fatal(err)
		}
		for i := range list.Items {
			f.quota.index.add(&list.Items[i])
		}
	}
	return f.quota.Reconcile(f.context(), named(requester))
}

func (f *fixture) context() context.Context {
	return log.IntoContext(f.t.Context(), funcr.New(func(_, args string) { f.log.WriteString(args + "\n") }, funcr.Options{}))
}

func named(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Name: name}}
}

func (f *fixture) exists(name string) bool {
	f.t.Helper()
	err := f.api.Get(f.t.Context(), client.ObjectKey{Name: name}, &csr{})
	if err != nil && !apierrors.IsNotFound(err) {
		f.t.Fatal(err)
	}
	return err == nil
}

// deleted returns how many requests were deleted for a reason.
func (f *fixture) deleted(reason string) float64 {
	f.t.Helper()
	metrics, err := newMetrics(f.registry)
	if err != nil {
		f.t.Fatal(err)
	}
	return testutil.ToFloat64(metrics.deleted.WithLabelValues(reason))
}

// told returns the next Event, or "".
func (f *fixture) told() string {
	select {
	case event := <-f.events.Events:
		return event
	default:
		return ""
	}
}

// newCSR returns a request of this age.
func newCSR(name string, age time.Duration, conditions ...certificatesv1.CertificateSigningRequestCondition) *csr {
	return &csr{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name), CreationTimestamp: metav1.NewTime(now.Add(-age))},
		Spec:       certificatesv1.CertificateSigningRequestSpec{Username: "requester", SignerName: "example.com/signer"},
		Status:     certificatesv1.CertificateSigningRequestStatus{Conditions: conditions},
	}
}

// says returns a condition of this age.
func says(kind certificatesv1.RequestConditionType, age time.Duration) certificatesv1.CertificateSigningRequestCondition {
	return certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: "True", LastUpdateTime: metav1.NewTime(now.Add(-age))}
}
