package sign

import (
	"context"
	"crypto"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

// condition is a short name for a condition of a request.
type condition = certificatesv1.CertificateSigningRequestCondition

// fixture is a reconciler with an in-memory API.
type fixture struct {
	t *testing.T
	// api is the API as other clients see it, without faults.
	api client.WithWatch
	// cache is what the reconciler reads first; it can be stale.
	cache client.WithWatch
	// faults are injected into the reconciler's own writes.
	faults interceptor.Funcs
	ca     *fakeCA

	registry   *prometheus.Registry
	events     *events.FakeRecorder
	log        strings.Builder
	signatures int
	writes     int
}

type fakeCA struct {
	authority *pki.Authority
	err       error
}

func (c *fakeCA) Current() (*pki.Authority, error) { return c.authority, c.err }

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	root, err := pki.NewRoot(pki.UnrecordedSigning, "test root", newKey(t), pki.DefaultRootLifetime, now)
	if err != nil {
		t.Fatal(err)
	}
	api := newAPI(t, objects...)
	return &fixture{
		t: t, api: api, cache: api, ca: &fakeCA{authority: root},
		registry: prometheus.NewRegistry(), events: events.NewFakeRecorder(100),
	}
}

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newAPI(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := certificatesv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&csr{}).WithObjects(objects...).Build()
}

// reconcile runs the reconciler once on the object named alice.
func (f *fixture) reconcile() (reconcile.Result, error) {
	f.t.Helper()
	cfg, err := BuiltIn{CA: f.ca, Issuing: pki.Unrecorded, Config: Config{
		SignerName: signerName,
		Client:     interceptor.NewClient(f.api, f.countWrites()),
		Clock:      clocktesting.NewFakePassiveClock(now),
		Events:     f.events,
		Metrics:    f.registry,
	}}.config()
	if err != nil {
		f.t.Fatal(err)
	}
	r, err := newReconciler(f.cache, cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	sign := r.sign
	r.sign = func(ctx context.Context, req request.Request, by signer.Permission, at time.Time) (*signer.Issued, error) {
		issued, err := sign(ctx, req, by, at)
		if issued != nil {
			f.signatures++
		}
		return issued, err
	}
	logger := funcr.New(func(_, args string) { f.log.WriteString(args + "\n") }, funcr.Options{})
	return r.Reconcile(log.IntoContext(f.t.Context(), logger), reconcile.Request{NamespacedName: client.ObjectKey{Name: "alice"}})
}

func (f *fixture) countWrites() interceptor.Funcs {
	funcs := f.faults
	update := funcs.SubResourceUpdate
	if update == nil {
		update = honest
	}
	funcs.SubResourceUpdate = func(ctx context.Context, c client.Client, name string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
		f.writes++
		return update(ctx, c, name, obj, opts...)
	}
	return funcs
}

type subResourceUpdate = func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error

// honest writes without a fault.
func honest(ctx context.Context, c client.Client, name string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	return c.SubResource(name).Update(ctx, obj, opts...)
}

// before fails without writing, the first times that it is called.
func before(times int, err error) subResourceUpdate {
	return func(ctx context.Context, c client.Client, name string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
		if times--; times >= 0 {
			return err
		}
		return honest(ctx, c, name, obj, opts...)
	}
}

// after writes and then returns an error.
func after(failure error) subResourceUpdate {
	return func(ctx context.Context, c client.Client, name string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
		return errors.Join(failure, honest(ctx, c, name, obj, opts...))
	}
}

// meanwhile makes another client act before the first write arrives.
func (f *fixture) meanwhile(act func()) subResourceUpdate {
	done := false
	return func(ctx context.Context, c client.Client, name string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
		if !done {
			done = true
			act()
		}
		return honest(ctx, c, name, obj, opts...)
	}
}

func (f *fixture) get() *csr {
	f.t.Helper()
	c := &csr{}
	if err := f.api.Get(f.t.Context(), client.ObjectKey{Name: "alice"}, c); err != nil {
		f.t.Fatal(err)
	}
	return c
}

// change writes to the object as another client.
func (f *fixture) change(change func(*csr)) {
	f.t.Helper()
	c := f.get()
	change(c)
	status := c.DeepCopy()
	if err := f.api.Update(f.t.Context(), c); err != nil {
		f.t.Fatal(err)
	}
	status.ResourceVersion = c.ResourceVersion
	if err := f.api.Status().Update(f.t.Context(), status); err != nil {
		f.t.Fatal(err)
	}
}

// eventText returns what the recorder got, in one string.
func (f *fixture) eventText() string {
	var all strings.Builder
	for {
		select {
		case e := <-f.events.Events:
			all.WriteString(e + "\n")
		default:
			return all.String()
		}
	}
}

// approved returns an approved request named alice.
func approved(t *testing.T) *csr {
	t.Helper()
	pem, err := pki.NewRequest(pki.Subject{CommonName: "alice"}, newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	return &csr{
		ObjectMeta: metav1.ObjectMeta{Name: "alice", UID: "uid-1"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem, SignerName: signerName, Username: "requester",
			Usages: []certificatesv1.KeyUsage{"digital signature", "client auth"},
		},
		Status: certificatesv1.CertificateSigningRequestStatus{Conditions: []condition{{Type: "Approved", Status: "True"}}},
	}
}
