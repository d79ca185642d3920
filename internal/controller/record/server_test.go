package record_test

import (
	"context"
	"crypto"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	recordsv1alpha1 "github.com/certplane/certplane/api/records/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/controller/record"
	"github.com/certplane/certplane/internal/generated/crds"
	"github.com/certplane/certplane/internal/inventory"
	"github.com/certplane/certplane/internal/pki"
)

var shared = &apitest.Shared{}

func TestMain(m *testing.M) { apitest.Main(m, shared) }

// world is a namespace of an API server with CertificatePacks.
type world struct {
	*apitest.Server
	api       client.WithWatch
	namespace string
}

func start(t *testing.T) world {
	t.Helper()
	s := shared.Start(t)
	kinds := runtime.NewScheme()
	if err := errors.Join(recordsv1alpha1.AddToScheme(kinds), certificatesv1.AddToScheme(kinds), corev1.AddToScheme(kinds)); err != nil {
		t.Fatal(err)
	}
	definitions, err := crdclient.NewForConfig(s.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	text, err := crds.Read("certificatepacks.records.certplane.dev")
	if err != nil {
		t.Fatal(err)
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(text.Object, definition); err != nil {
		t.Fatal(err)
	}
	if _, err := definitions.ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), definition.Name, metav1.GetOptions{}); err != nil {
		apitest.Define(t, definitions, definition)
	}
	api, err := client.NewWithWatch(s.Admin(t), client.Options{Scheme: kinds})
	if err != nil {
		t.Fatal(err)
	}
	return world{s, api, apitest.OwnNamespace(t, apitest.Client(t, s.Admin(t)))}
}

// open returns a recorder that works through a client.
func (w world) open(t *testing.T, api client.Client, change func(*record.Config)) *record.Recorder {
	t.Helper()
	cfg := record.Config{Client: api, Namespace: w.namespace, Settings: record.DefaultSettings(), Now: time.Now}
	if change != nil {
		change(&cfg)
	}
	r, err := record.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// request creates an approved request.
func (w world) request(t *testing.T, name string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	csr := apitest.NewCSR(t, name, "example.com/signer", pki.Subject{CommonName: name}, key(t))
	if err := w.api.Create(t.Context(), csr); err != nil {
		t.Fatal(err)
	}
	csr = apitest.With(csr, certificatesv1.CertificateApproved)
	if err := w.api.SubResource("approval").Update(t.Context(), csr); err != nil {
		t.Fatal(err)
	}
	return csr
}

var key = func() func(*testing.T) crypto.Signer {
	var once sync.Once
	var kept crypto.Signer
	return func(t *testing.T) crypto.Signer {
		once.Do(func() { kept = apitest.NewKey(t) })
		return kept
	}
}()

// certificate returns another certificate, which is valid for some days.
func (w world) certificate(t *testing.T, name string, days int) []byte {
	t.Helper()
	root, err := pki.NewRoot(pki.UnrecordedSigning, name, key(t), time.Duration(days)*24*time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return pki.EncodeCertificates(root.Certificate())
}

// found returns how often the record of each request is found by a new reader.
func (w world) found(t *testing.T) map[string]int {
	t.Helper()
	store := w.open(t, w.api, nil).Packs()
	if err := store.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	err := inventory.Each(t.Context(), store, inventory.Query{}, func(r *inventory.Record) bool {
		found[r.Name]++
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// mortal is a client that fails at one of its writes, and ever after: before that write or
// after it.
type mortal struct {
	client.Client
	mu    sync.Mutex
	left  int // writes
	after bool
	dead  context.CancelFunc
}

var errDead = errors.New("killed")

func (m *mortal) write(write func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left--
	switch {
	case m.left > 0:
		return write()
	case m.left == 0 && m.after:
		_ = write()
	}
	m.dead()
	return errDead
}

func newMortal(api client.WithWatch, left int, after bool, dead context.CancelFunc) *mortal {
	m := &mortal{left: left, after: after, dead: dead}
	m.Client = interceptor.NewClient(api, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return m.write(func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return m.write(func() error { return c.Update(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return m.write(func() error { return c.Delete(ctx, o, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			return m.write(func() error { return c.SubResource(sub).Update(ctx, o, opts...) })
		},
	})
	return m
}

// kills is how often TestKilled kills a process.
var kills = flag.Int("kills", 120, "how often TestKilled kills a process, before and after each of its writes in turn")

// A process is killed before and after each of its writes, which are the record and the status of
// three requests: no certificate is without a record, and none is found twice.
func TestKilled(t *testing.T) {
	w := start(t)
	const each, writes = 3, 2 * 3
	rounds, killed := *kills, 0
	issued := map[string]bool{} // names of records whose certificates got out
	for round := range rounds {
		when := round / 3 // each step with and without required
		ctx, dead := context.WithCancel(t.Context())
		m := newMortal(w.api, 1+when/2%writes, when%2 == 0, dead)
		r := w.open(t, m, func(c *record.Config) { c.Settings.Required = round%3 == 0 })
		_ = r.Packs().Load(ctx)
		for n := range each {
			csr := w.request(t, fmt.Sprintf("r%d-%d", round, n))
			cert := w.certificate(t, csr.Name, 1+mathrand.IntN(3))
			if r.Record(ctx, csr, cert) != nil {
				continue // it waits
			}
			csr.Status.Certificate = cert
			_ = m.Status().Update(ctx, csr) // killed after it, it has happened
		}
		if ctx.Err() != nil {
			killed++
		}
		dead()
		if round%20 != 0 {
			continue
		}
		for name, times := range w.found(t) {
			if times > 1 {
				t.Fatalf("round %d: %s is found %d times", round, name, times)
			}
		}
	}
	if killed != rounds {
		t.Errorf("%d of %d processes were killed", killed, rounds)
	}
	all := &certificatesv1.CertificateSigningRequestList{}
	if err := w.api.List(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	var requests []client.Object
	for i := range all.Items {
		if data := all.Items[i].Status.Certificate; len(data) > 0 {
			cert, err := pki.ParseFirst(data)
			if err != nil {
				t.Fatal(err)
			}
			requests, issued[pki.Fingerprint(cert)[:32]] = append(requests, &all.Items[i]), true
		}
	}
	last := w.open(t, w.api, nil)
	for _, seen := range [][]client.Object{nil, requests} { // nothing is missing that requests still have
		if err := errors.Join(last.Packs().Load(t.Context()), last.RecordSeen(t.Context(), seen...)); err != nil {
			t.Fatal(err)
		}
		found := w.found(t)
		for name := range issued {
			if found[name] != 1 {
				t.Errorf("%s is found %d times", name, found[name])
			}
		}
		for name, times := range found {
			if times != 1 {
				t.Errorf("%s is found %d times", name, times)
			}
		}
		if len(issued) < rounds {
			t.Errorf("only %d certificates got out", len(issued))
		}
		t.Logf("%d kills: %d certificates got out, %d are recorded", killed, len(issued), len(found))
	}
}

// Two processes that record at once, as a former leader and the next one may, keep each
// record once, also if both have the same.
func TestTwoLeaders(t *testing.T) {
	w := start(t)
	leaders := []*record.Recorder{w.open(t, w.api, nil), w.open(t, w.api, nil)}
	for _, leader := range leaders {
		if err := leader.Packs().Load(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	const rounds, each = 40, 9
	var names []string
	for round := range rounds {
		var both sync.WaitGroup
		for n := range each {
			name := fmt.Sprintf("r%d-%d", round, n)
			cert := w.certificate(t, name, 1+n%2)
			for _, leader := range leaders {
				both.Go(func() {
					if err := leader.Record(t.Context(), csr(name), cert); err != nil {
						t.Error(err)
					}
				})
			}
			parsed, err := pki.ParseFirst(cert)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, pki.Fingerprint(parsed)[:32])
		}
		both.Wait()
	}
	apitest.Eventually(t, "all are recorded", func() bool { return len(w.found(t)) == len(names) })
	for name, times := range w.found(t) {
		if times != 1 || !slices.Contains(names, name) {
			t.Errorf("%s is found %d times", name, times)
		}
	}
}

// failing is a client whose writes of CertificatePacks fail while fails is set.
func failing(api client.WithWatch, fails *atomic.Bool) client.Client {
	full := func(write func() error) error {
		if fails.Load() {
			return apierrors.NewInternalError(errors.New("etcdserver: mvcc: database space exceeded"))
		}
		return write()
	}
	return interceptor.NewClient(api, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return full(func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return full(func() error { return c.Update(ctx, o, opts...) })
		},
	})
}

// csr returns a request that is not stored.
func csr(name string) *certificatesv1.CertificateSigningRequest {
	return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
}

// A certificate waits two seconds for a store that cannot be written, and the next ones do not
// wait. They are recorded when that is possible.
func TestNotWritable(t *testing.T) {
	w := start(t)
	var fails atomic.Bool
	fails.Store(true)
	events := events.NewFakeRecorder(10)
	r := w.open(t, failing(w.api, &fails), func(c *record.Config) { c.Events = events })
	var late []client.Object
	took := func(name string) time.Duration {
		began, request := time.Now(), csr(name)
		request.Status.Certificate = w.certificate(t, name, 1)
		late = append(late, request)
		if err := r.Record(t.Context(), request, request.Status.Certificate); err != nil {
			t.Fatal(err)
		}
		if event := <-events.Events; !strings.HasPrefix(event, "Warning NotRecorded The certificate was issued before it could be recorded in the inventory") {
			t.Errorf("event %q", event)
		}
		return time.Since(began)
	}
	const waits = 1900 * time.Millisecond // hardly less than what the first one waits
	if first := took("first"); first < waits {
		t.Errorf("the first one waited %s", first)
	}
	if next := took("next"); next > waits {
		t.Errorf("the next one waited %s", next)
	}
	if r.Recorded(signingRequest, "first") {
		t.Error("its request may be deleted")
	}
	fails.Store(false)
	if err := r.RecordSeen(t.Context(), late...); err != nil || len(w.found(t)) != 2 || !r.Recorded(signingRequest, "first") {
		t.Errorf("%d are recorded, %v", len(w.found(t)), err)
	}
	if err := r.Record(t.Context(), csr("later"), w.certificate(t, "later", 1)); err != nil || len(events.Events) > 0 {
		t.Errorf("when it works again: %v, %d events", err, len(events.Events))
	}
	if !r.Recorded(signingRequest, "later") {
		t.Error("its request may not be deleted")
	}
}

const signingRequest = "CertificateSigningRequest"

// With the setting, a certificate does not get out without its record.
func TestRequired(t *testing.T) {
	w := start(t)
	var fails atomic.Bool
	fails.Store(true)
	r := w.open(t, failing(w.api, &fails), func(c *record.Config) { c.Settings.Required = true })
	if err := r.Record(t.Context(), csr("a"), w.certificate(t, "a", 1)); err == nil || !strings.Contains(err.Error(), "space exceeded") {
		t.Fatalf("got %v", err)
	}
	fails.Store(false)
	if err := r.Record(t.Context(), csr("b"), w.certificate(t, "b", 1)); err != nil {
		t.Fatal(err)
	}
	if found := w.found(t); len(found) != 1 {
		t.Errorf("%d records: the first certificate never got out", len(found))
	}
}

// large returns records that take about a kibibyte each, of certificates that end on a day.
func large(t *testing.T, n int, ends time.Time) (records []*inventory.Record) {
	t.Helper()
	for range n {
		digest := rand.Text() + rand.Text() + rand.Text()
		record := &inventory.Record{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
		record.Certificate.Fingerprint, record.Certificate.NotAfter = fmt.Sprintf("%x", digest)[:64], metav1.NewTime(ends)
		for range 12 {
			record.Labels["x/"+rand.Text()] = rand.Text() + rand.Text()
		}
		inventory.Complete(record)
		records = append(records, record)
	}
	return records
}

// When the records take nearly all their space, those of ended certificates are deleted, the
// oldest first; then pods' certificates are not recorded, and in the end none are. Nothing waits
// for that.
func TestFull(t *testing.T) {
	w := start(t)
	events := events.NewFakeRecorder(10)
	r := w.open(t, w.api, func(c *record.Config) {
		c.Settings.MaxMiB, c.Settings.Kinds, c.Events = 1, []string{"CertificateSigningRequest", "PodCertificateRequest"}, events
		c.Full = &corev1.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: w.namespace, Name: "certplane-controllers"}
	})
	store, day := r.Packs(), 24*time.Hour
	put := func(n int, ends time.Duration) {
		t.Helper()
		if err := store.Write(t.Context(), large(t, n, time.Now().Add(ends))...); err != nil {
			t.Fatal(err)
		}
	}
	fill := func(share float64, ends time.Duration) {
		t.Helper()
		for store.Used() < share {
			put(100, ends)
		}
	}
	if err := r.Packs().Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(120, -3*day)
	put(120, -2*day)
	fill(0.95, 30*day)
	ended := func(days int64) (found int) {
		of := &recordsv1alpha1.CertificatePackList{}
		day := fmt.Sprintf("%06d", time.Now().Unix()/86400-days)
		if err := w.api.List(t.Context(), of, client.InNamespace(w.namespace), client.MatchingLabels{recordsv1alpha1.DayLabel: day}); err != nil {
			t.Fatal(err)
		}
		return len(of.Items)
	}
	if err := store.Clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ended(3) != 0 || ended(2) == 0 && store.Used() > 0.85 {
		t.Errorf("after cleaning %v is used, with %d and %d ended ones", store.Used(), ended(3), ended(2))
	}
	fill(0.92, 30*day)
	pod := &certificatesv1beta1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Name: "pod", UID: "pod"}}
	dropped := func(kind string) float64 { return record.Dropped(r, kind) }
	before := len(w.found(t))
	for _, request := range []client.Object{csr("nearly"), pod} {
		if err := r.Record(t.Context(), request, w.certificate(t, "nearly", 1)); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(w.found(t)) - before; got != 1 || dropped("PodCertificateRequest") != 1 || dropped("CertificateSigningRequest") != 0 {
		t.Errorf("nearly full: %d recorded, %v and %v dropped", got, dropped("PodCertificateRequest"), dropped("CertificateSigningRequest"))
	}
	fill(1, 30*day)
	if err := r.Record(t.Context(), csr("full"), w.certificate(t, "full", 1)); err != nil {
		t.Fatal(err)
	}
	if dropped("CertificateSigningRequest") != 1 || !r.Recorded(signingRequest, "full") {
		t.Error("full: the certificate is recorded, or its request may not be deleted")
	}
	if event := <-events.Events; event != "Warning InventoryFull Not all certificates are recorded: raise inventory.maxMiB, which is 1" {
		t.Errorf("event %q", event)
	}
}
