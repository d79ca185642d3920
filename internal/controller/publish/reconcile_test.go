package publish

import (
	"context"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/issuing/roots"
	"github.com/certplane/certplane/internal/pki"
)

var now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func newRoot(t *testing.T, name string) *x509.Certificate {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	root, err := pki.NewRoot(pki.UnrecordedSigning, name, key, pki.DefaultRootLifetime, now)
	if err != nil {
		t.Fatal(err)
	}
	return root.Certificate()
}

// fixture is a publisher with an in-memory API.
type fixture struct {
	t        *testing.T
	api      client.WithWatch
	roots    []*x509.Certificate
	clock    *clocktesting.FakePassiveClock
	failure  error // the error that writes return
	writes   []string
	events   *events.FakeRecorder
	registry *prometheus.Registry
	made     *reconciler
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	return &fixture{
		t: t, api: fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).Build(),
		roots: []*x509.Certificate{newRoot(t, "root")}, clock: clocktesting.NewFakePassiveClock(now),
		events: events.NewFakeRecorder(10), registry: prometheus.NewRegistry(),
	}
}

func (f *fixture) reconciler() *reconciler {
	f.t.Helper()
	if f.made != nil {
		return f.made
	}
	writer := interceptor.NewClient(f.api, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			f.writes = append(f.writes, "create")
			if f.failure != nil {
				return f.failure
			}
			o.SetUID("assigned")
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			f.writes = append(f.writes, "update")
			if f.failure != nil {
				return f.failure
			}
			return c.Update(ctx, o, opts...)
		},
	})
	r, err := newReconciler(f.api, Config{
		Client: writer, Roots: func() []*x509.Certificate { return f.roots }, Settings: DefaultSettings(),
		Clock: f.clock, Events: f.events, Metrics: f.registry,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	r.configMaps = f.api
	f.made = r
	return r
}

func (f *fixture) reconcile() error {
	f.t.Helper()
	_, err := f.reconciler().Reconcile(f.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "blue"}})
	return err
}

// published returns the data of the config map.
func (f *fixture) published() map[string]string {
	f.t.Helper()
	var config corev1.ConfigMap
	if err := f.api.Get(f.t.Context(), client.ObjectKey{Namespace: "blue", Name: Name}, &config); err != nil {
		f.t.Fatal(err)
	}
	return config.Data
}

func blue() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "blue"}}
}

func config(data map[string]string, description string) *corev1.ConfigMap {
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: Name, UID: "stored"}, Data: data}
	if description != "" {
		c.Annotations = map[string]string{descriptionAnnotation: description}
	}
	return c
}

func TestReconcile(t *testing.T) {
	ending := blue()
	ending.DeletionTimestamp, ending.Finalizers = &metav1.Time{Time: now}, []string{"x/y"}
	right := func(f *fixture) map[string]string {
		return map[string]string{key: string(pki.EncodeCertificates(f.roots...))}
	}
	for _, tc := range []struct {
		reason    string
		namespace *corev1.Namespace
		stored    func(f *fixture) *corev1.ConfigMap
		want      string
	}{
		{"a new namespace", blue(), nil, "create"},
		{"no namespace", nil, nil, ""},
		{"a namespace that ends", ending, nil, ""},
		{"as it should be", blue(), func(f *fixture) *corev1.ConfigMap { return config(right(f), description) }, ""},
		{"in other words", blue(), func(f *fixture) *corev1.ConfigMap { return config(right(f), "other words") }, ""},
		{"no words", blue(), func(f *fixture) *corev1.ConfigMap { return config(right(f), "") }, "update"},
		{"another CA", blue(), func(*fixture) *corev1.ConfigMap { return config(map[string]string{key: "x"}, description) }, "update"},
		{"one key more", blue(), func(f *fixture) *corev1.ConfigMap {
			data := right(f)
			data["x"] = "y"
			return config(data, description)
		}, "update"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			f := newFixture(t)
			if tc.namespace != nil {
				f.api = fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(tc.namespace).Build()
			}
			if tc.stored != nil {
				if err := f.api.Create(t.Context(), tc.stored(f)); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.reconcile(); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(f.writes, " "); got != tc.want {
				t.Fatalf("writes %q, want %q", got, tc.want)
			}
			if tc.want != "" {
				if err := f.reconcile(); err != nil || len(f.writes) != 1 {
					t.Errorf("the next time: %v, writes %v", err, f.writes)
				}
				if got := f.published(); len(got) != 1 || got[key] != right(f)[key] {
					t.Errorf("published %v", got)
				}
			}
			if got := f.synced("200"); got == 0 {
				t.Error("no sync was counted")
			}
		})
	}
}

func (f *fixture) synced(code string) float64 {
	f.t.Helper()
	families, err := f.registry.Gather()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.Metric {
			if family.GetName() == "root_ca_cert_publisher_sync_total" && metric.Label[0].GetValue() == code {
				return metric.Counter.GetValue()
			}
		}
	}
	return 0
}

func TestFailures(t *testing.T) {
	resource := schema.GroupResource{Resource: "configmaps"}
	terminating := apierrors.NewForbidden(resource, Name, errors.New("ending"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, Name, nil)
	for _, tc := range []struct {
		reason  string
		failure error
		code    string
		retried bool
		event   bool
	}{
		{"the namespace is gone", apierrors.NewNotFound(resource, Name), "200", false, false},
		{"the namespace ends", terminating, "200", false, false},
		{"somebody was faster", apierrors.NewConflict(resource, Name, errors.New("x")), "200", false, false},
		{"not allowed", apierrors.NewForbidden(resource, Name, errors.New("RBAC")), "403", true, false},
		{"no answer", errors.New("refused"), "500", true, false},
		{"immutable", invalid, "422", false, true},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			f := newFixture(t, blue(), config(nil, ""))
			f.failure = tc.failure
			err := f.reconcile()
			terminal := errors.Is(err, reconcile.TerminalError(nil))
			if (err != nil && !terminal) != tc.retried {
				t.Errorf("error %v", err)
			}
			if f.synced(tc.code) != 1 {
				t.Errorf("not counted as %s", tc.code)
			}
			if got := len(f.events.Events) == 1; got != tc.event {
				t.Errorf("told: %v", got)
			}
			if n, err := testutil.GatherAndCount(f.registry, "root_ca_cert_publisher_sync_duration_seconds"); n != 1 || err != nil {
				t.Errorf("%d durations, %v", n, err)
			}
		})
	}
}

// While the roots change, both sets are published.
func TestOverlap(t *testing.T) {
	f := newFixture(t, blue())
	if err := f.reconcile(); err != nil {
		t.Fatal(err)
	}
	older, newer := f.roots[0], newRoot(t, "new root")
	f.roots = []*x509.Certificate{newer}
	for _, step := range []struct {
		after time.Duration
		want  []*x509.Certificate
	}{
		{0, []*x509.Certificate{newer, older}},
		{24*time.Hour - 1, []*x509.Certificate{newer, older}},
		{24 * time.Hour, []*x509.Certificate{newer}},
	} {
		f.clock.SetTime(now.Add(step.after))
		if err := f.reconcile(); err != nil {
			t.Fatal(err)
		}
		if got := f.published()[key]; got != string(pki.EncodeCertificates(step.want...)) {
			t.Errorf("after %v published is\n%s", step.after, got)
		}
	}
}

// A process that starts within the overlap, or after the roots have changed while it was
// down, goes on publishing the former roots. What a user has put into a config map of a
// namespace is no root.
func TestOverlapAfterRestart(t *testing.T) {
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}
	f := newFixture(t, blue(), system)
	both := func() {
		t.Helper()
		for _, namespace := range []string{metav1.NamespaceSystem, "blue"} {
			if _, err := f.reconciler().Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: namespace}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	both()
	forged := config(map[string]string{key: string(pki.EncodeCertificates(newRoot(t, "forged")))}, "")
	if err := f.api.Update(t.Context(), forged); err != nil {
		t.Fatal(err)
	}
	older, newer := f.roots[0], newRoot(t, "new root")
	f.made, f.roots = nil, []*x509.Certificate{newer}
	both()
	f.clock.SetTime(now.Add(23 * time.Hour))
	f.made = nil
	both()
	if got := f.published()[key]; got != string(pki.EncodeCertificates(newer, older)) {
		t.Errorf("after two restarts, published is\n%s", got)
	}
	f.clock.SetTime(now.Add(24 * time.Hour))
	both()
	if got := f.published()[key]; got != string(pki.EncodeCertificates(newer)) {
		t.Errorf("after the overlap, published is\n%s", got)
	}
}

func TestNothingToPublish(t *testing.T) {
	for _, none := range []roots.Roots{nil, roots.Static()} {
		if _, err := newReconciler(nil, Config{Roots: none}); !errors.Is(err, errNoRoots) {
			t.Errorf("error %v", err)
		}
	}
	f := newFixture(t, blue(), config(map[string]string{key: "x"}, ""))
	f.reconciler()
	f.roots = nil
	f.clock.SetTime(now.Add(48 * time.Hour))
	f.reconcile() // the former roots are in the overlap
	f.clock.SetTime(now.Add(96 * time.Hour))
	f.writes = nil
	if err := f.reconcile(); !errors.Is(err, errNoRoots) || len(f.writes) != 0 {
		t.Errorf("error %v, writes %v", err, f.writes)
	}
}

func TestSettings(t *testing.T) {
	if err := DefaultSettings().Validate(); err != nil {
		t.Error(err)
	}
	bad := Settings{Overlap: metav1.Duration{Duration: -time.Second}}
	if err := bad.Validate(); err == nil || err.Error() != "publishing.overlap: -1s is negative: 0s means no overlap" {
		t.Errorf("error %v", err)
	}
}
