package trust

import (
	"context"
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/rollover"
	"github.com/certplane/certplane/internal/process/collector/syncmetrics"
	"github.com/certplane/certplane/internal/process/worker"
)

const signerName = "example.com/signer"

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

// fixture is a publisher for one signer with an in-memory API.
type fixture struct {
	t        *testing.T
	api      client.WithWatch
	kind     schema.GroupVersionKind
	roots    []*x509.Certificate
	clock    *clocktesting.FakePassiveClock
	failures map[string]error // the error that a verb returns
	writes   []string
	events   *events.FakeRecorder
	registry *prometheus.Registry
}

func newFixture(t *testing.T, version string) *fixture {
	t.Helper()
	return &fixture{
		t: t, api: fake.NewClientBuilder().WithScheme(scheme.Scheme).Build(),
		kind:  schema.GroupVersionKind{Group: certificatesv1.GroupName, Version: version, Kind: kindName},
		roots: []*x509.Certificate{newRoot(t, "root")}, clock: clocktesting.NewFakePassiveClock(now),
		failures: map[string]error{}, events: events.NewFakeRecorder(10), registry: prometheus.NewRegistry(),
	}
}

func (f *fixture) publisher() *publisher {
	f.t.Helper()
	note := func(verb string) error {
		f.writes = append(f.writes, verb)
		return f.failures[verb]
	}
	writer := interceptor.NewClient(f.api, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := note("create"); err != nil {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if err := note("update"); err != nil {
				return err
			}
			return c.Update(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := note("delete"); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
	})
	metrics, err := syncmetrics.New(f.registry, "publisher", "bundles")
	if err != nil {
		f.t.Fatal(err)
	}
	signer := Signer{
		Signer: rollover.Signer{Name: signerName, Overlap: time.Hour},
		Roots:  func() []*x509.Certificate { return f.roots },
	}
	return &publisher{Config: Config{Client: writer, Signers: []Signer{signer}, Clock: f.clock, Events: f.events}, metrics: metrics}
}

func (f *fixture) reconcile() (reconcile.Result, error) {
	f.t.Helper()
	r := &reconciler{publisher: f.publisher(), kind: f.kind, objects: f.api}
	f.writes = nil
	return r.Reconcile(f.t.Context(), requestFor(r.Signers[0]))
}

// published returns the content of the signer's bundles, by the names of the
// CAs in them.
func (f *fixture) published() []string {
	f.t.Helper()
	r := &reconciler{publisher: f.publisher(), kind: f.kind, objects: f.api}
	bundles, err := r.bundlesOf(f.t.Context(), r.Signers[0])
	if err != nil {
		f.t.Fatal(err)
	}
	var names []string
	for _, b := range bundles {
		certs, err := pki.ParseCertificates([]byte(b.Spec.TrustBundle))
		if err != nil {
			f.t.Fatal(err)
		}
		for _, cert := range certs {
			names = append(names, cert.Subject.CommonName)
		}
	}
	slices.Sort(names)
	return names
}

func (f *fixture) counted(code string) float64 {
	f.t.Helper()
	families, err := f.registry.Gather()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.Metric {
			if family.GetName() == "publisher_sync_total" && metric.Label[0].GetValue() == code {
				return metric.Counter.GetValue()
			}
		}
	}
	return 0
}

// A signer changes its CA, in each version that an API can have.
func TestRollover(t *testing.T) {
	for _, version := range worker.TrustBundles(nil).Versions {
		t.Run(version, func(t *testing.T) {
			f := newFixture(t, version)
			for _, step := range []struct {
				reason string
				change func()
				writes string
				want   string
				again  time.Duration
			}{
				{"the first time", func() {}, "create", "root", 0},
				{"nothing new", func() {}, "", "root", 0},
				{"another CA", func() { f.roots = []*x509.Certificate{newRoot(t, "successor")} }, "create update", "root successor", time.Hour},
				{"half of the overlap", func() { f.clock.SetTime(now.Add(30 * time.Minute)) }, "", "root successor", 30 * time.Minute},
				{"the end of the overlap", func() { f.clock.SetTime(now.Add(time.Hour)) }, "delete", "successor", 0},
			} {
				step.change()
				result, err := f.reconcile()
				if err != nil || result.RequeueAfter != step.again {
					t.Fatalf("%s: %v, %v", step.reason, result, err)
				}
				if got := strings.Join(f.writes, " "); got != step.writes {
					t.Errorf("%s: writes %q, want %q", step.reason, got, step.writes)
				}
				if got := strings.Join(f.published(), " "); got != step.want {
					t.Errorf("%s: published are %q, want %q", step.reason, got, step.want)
				}
			}
			var told []string
			for len(f.events.Events) > 0 {
				told = append(told, strings.Fields(<-f.events.Events)[1])
			}
			if got := strings.Join(told, " "); got != "Published Published Superseded Deleted" {
				t.Errorf("events: %s", got)
			}
			if f.counted("200") != 5 {
				t.Errorf("%v syncs counted", f.counted("200"))
			}
		})
	}
}

// No root is removed before its successor exists.
func TestFailures(t *testing.T) {
	resource := schema.GroupResource{Group: certificatesv1.GroupName, Resource: "clustertrustbundles"}
	for _, tc := range []struct {
		reason  string
		failure error
		code    string // empty: not counted
		again   time.Duration
	}{
		{"not allowed", apierrors.NewForbidden(resource, "x", errors.New("attest")), "403", 0},
		{"no answer", errors.New("refused"), "500", 0},
		{"somebody was faster", apierrors.NewAlreadyExists(resource, "x"), "", pause},
	} {
		f := newFixture(t, "v1")
		if _, err := f.reconcile(); err != nil {
			t.Fatal(err)
		}
		f.roots = []*x509.Certificate{newRoot(t, "successor")}
		f.failures["create"] = tc.failure
		result, err := f.reconcile()
		if result.RequeueAfter != tc.again || (err == nil) != (tc.again != 0) || tc.again == 0 && !errors.Is(err, tc.failure) {
			t.Errorf("%s: %v, %v", tc.reason, result, err)
		}
		if strings.Join(f.writes, " ") != "create" || strings.Join(f.published(), " ") != "root" {
			t.Errorf("%s: writes %v, published %v", tc.reason, f.writes, f.published())
		}
		if tc.code != "" && f.counted(tc.code) != 1 {
			t.Errorf("%s: not counted as %s", tc.reason, tc.code)
		}
	}
}

// Roots that no client could trust are not published, and do not remove other
// roots.
func TestRootsThatAreNone(t *testing.T) {
	for reason, certs := range map[string][]*x509.Certificate{"none": nil, "a leaf": {{Raw: []byte("x")}}} {
		f := newFixture(t, "v1")
		if _, err := f.reconcile(); err != nil {
			t.Fatal(err)
		}
		f.roots = certs
		if _, err := f.reconcile(); err == nil || len(f.writes) != 0 || f.counted("500") != 1 {
			t.Errorf("%s: %v, writes %v", reason, err, f.writes)
		}
	}
}

func TestSettings(t *testing.T) {
	signers := []string{"a/b", "c/d"}
	if err := DefaultSettings().Validate(signers); err != nil {
		t.Error(err)
	}
	for _, tc := range []struct {
		settings Settings
		want     string
	}{
		{Settings{Overlap: metav1.Duration{Duration: -time.Second}}, "trust.overlap: -1s is negative: 0s means no overlap"},
		{Settings{Upcoming: []Upcoming{{"a/b", "x"}, {"a/x", "x"}}}, `trust.upcoming[1].signerName: unknown signer "a/x": use one of a/b, c/d`},
		{Settings{Upcoming: []Upcoming{{"a/b", ""}}}, "trust.upcoming[0].rootsFile: missing"},
	} {
		if err := tc.settings.Validate(signers); err == nil || err.Error() != tc.want {
			t.Errorf("error %v, want %q", err, tc.want)
		}
	}
	missing := Settings{Upcoming: []Upcoming{{"a/b", "/nowhere"}}}
	if _, err := missing.Roots("a/b", nil); err == nil {
		t.Error("a file that is not there was accepted")
	}
	root := newRoot(t, "today")
	joined, err := missing.Roots("c/d", func() []*x509.Certificate { return []*x509.Certificate{root} })
	if err != nil || len(joined()) != 1 {
		t.Errorf("another signer: %v", err)
	}
}
