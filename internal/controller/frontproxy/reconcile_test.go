package frontproxy

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world is a store in which several servers keep the objects, each in its turn.
type world struct {
	t     *testing.T
	api   client.Client
	clock *clocktesting.FakePassiveClock
	users []*x509.Certificate
}

func newWorld(t *testing.T) *world {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	users, err := pki.NewRoot(pki.UnrecordedSigning, "users", key, 10*365*24*time.Hour, begin)
	if err != nil {
		t.Fatal(err)
	}
	return &world{
		t: t, api: fake.NewClientBuilder().WithScheme(scheme.Scheme).Build(), clock: clocktesting.NewFakePassiveClock(begin),
		users: []*x509.Certificate{users.Certificate()},
	}
}

func (w *world) server() *reconciler {
	return newReconciler(Config{
		Client: w.api, ClientCAs: func() []*x509.Certificate { return w.users }, Issuing: pki.Unrecorded, Revoked: revocation.NewIndex(), Use: &Client{}, Clock: w.clock,
	})
}

// run reconciles once, and returns the certificate and when the next run is due.
func (w *world) run(r *reconciler) (*tls.Certificate, time.Duration) {
	w.t.Helper()
	result, err := r.Reconcile(w.t.Context(), reconcile.Request{})
	if err != nil {
		w.t.Fatal(err)
	}
	certificate, err := r.Use.Certificate()
	if err != nil {
		w.t.Fatal(err)
	}
	return certificate, result.RequeueAfter
}

func (w *world) published() map[string]string {
	w.t.Helper()
	config := &corev1.ConfigMap{}
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Namespace: Namespace, Name: ConfigMapName}, config); err != nil {
		w.t.Fatal(err)
	}
	return config.Data
}

// verify checks a certificate as another API server does.
func verify(data map[string]string, certificate *tls.Certificate, now time.Time) error {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(data["requestheader-client-ca-file"]))
	_, err := certificate.Leaf.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err
}

// What is published has the keys and values of kube-apiserver's.
func TestPublished(t *testing.T) {
	w := newWorld(t)
	certificate, _ := w.run(w.server())
	data := w.published()
	if data["client-ca-file"] != string(pki.EncodeCertificates(w.users...)) {
		t.Errorf("client-ca-file: %s", data["client-ca-file"])
	}
	if err := verify(data, certificate, begin); err != nil {
		t.Error(err)
	}
	delete(data, "client-ca-file")
	delete(data, "requestheader-client-ca-file")
	lists := map[string][]string{}
	for key, value := range data {
		var list []string
		if err := json.Unmarshal([]byte(value), &list); err != nil {
			t.Errorf("%s: %v", key, err)
		}
		lists[key] = list
	}
	want := map[string][]string{
		"requestheader-allowed-names":        {certificate.Leaf.Subject.CommonName},
		"requestheader-username-headers":     {"X-Remote-User"},
		"requestheader-uid-headers":          {"X-Remote-Uid"},
		"requestheader-group-headers":        {"X-Remote-Group"},
		"requestheader-extra-headers-prefix": {"X-Remote-Extra-"},
	}
	if diff := cmp.Diff(want, lists); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if name := certificate.Leaf.Subject.CommonName; name != "front-proxy-client" {
		t.Errorf("the certificate's name is %s", name)
	}
	w.users = nil
	w.run(w.server())
	if _, ok := w.published()["client-ca-file"]; ok {
		t.Error("an empty bundle is published")
	}
}

// Over nine months, in which two servers take turns, another API server that learns
// of changes eight hours late always trusts the certificate. CA and certificate
// are replaced, and there is always a time for the next check.
func TestNeverUntrusted(t *testing.T) {
	w := newWorld(t)
	const days = 260
	servers := []*reconciler{w.server(), w.server()}
	cas, certificates := map[string]bool{}, map[string]bool{}
	w.run(servers[0])
	late := w.published()
	for i := range days * 3 {
		w.clock.SetTime(begin.Add(time.Duration(i) * 8 * time.Hour))
		certificate, again := w.run(servers[i/30%2])
		if again <= 0 || again > lookEvery {
			t.Fatalf("at %s: the next check is in %s", w.clock.Now(), again)
		}
		for _, data := range []map[string]string{late, w.published()} {
			if err := verify(data, certificate, w.clock.Now()); err != nil {
				t.Fatalf("at %s: %v", w.clock.Now(), err)
			}
		}
		if left := certificate.Leaf.NotAfter.Sub(w.clock.Now()); left < 8*time.Hour {
			t.Fatalf("at %s: the certificate ends in %s", w.clock.Now(), left)
		}
		late = w.published()
		cas[certificate.Leaf.Issuer.CommonName], certificates[certificate.Leaf.SerialNumber.String()] = true, true
	}
	if len(cas) != 2 || len(certificates) < days {
		t.Errorf("%d CAs and %d certificates", len(cas), len(certificates))
	}
	bundle, err := pki.ParseBundle([]byte(w.published()["requestheader-client-ca-file"]))
	if err != nil || len(bundle) > 3 {
		t.Errorf("%d CAs are published, %v", len(bundle), err)
	}
}

// A Secret that cannot be read, or that is gone, leads to another CA at once; the
// former one is trusted no longer.
func TestLostCA(t *testing.T) {
	for reason, damage := range map[string]func(*world, *corev1.Secret) error{
		"deleted": func(w *world, s *corev1.Secret) error { return w.api.Delete(w.t.Context(), s) },
		"damaged": func(w *world, s *corev1.Secret) error {
			s.Data[corev1.TLSPrivateKeyKey] = []byte("no key")
			return w.api.Update(w.t.Context(), s)
		},
	} {
		t.Run(reason, func(t *testing.T) {
			w := newWorld(t)
			server := w.server()
			former, _ := w.run(server)
			secret := &corev1.Secret{}
			if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: Namespace, Name: SecretName}, secret); err != nil {
				t.Fatal(err)
			}
			if keys := slices.Sorted(maps.Keys(secret.Data)); !slices.Equal(keys, []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey}) {
				t.Errorf("the Secret has the keys %v", keys)
			}
			if err := damage(w, secret); err != nil {
				t.Fatal(err)
			}
			w.clock.SetTime(begin.Add(time.Minute))
			latest, _ := w.run(server)
			if err := verify(w.published(), latest, w.clock.Now()); err != nil {
				t.Error(err)
			}
			if verify(w.published(), former, w.clock.Now()) == nil {
				t.Error("the former certificate is still trusted")
			}
		})
	}
}

func TestNoCertificateYet(t *testing.T) {
	if certificate, err := (&Client{}).Certificate(); certificate != nil || err == nil {
		t.Errorf("%v, %v", certificate, err)
	}
}

// A revoked certificate is replaced at once.
func TestRevoked(t *testing.T) {
	w := newWorld(t)
	r := w.server()
	first, _ := w.run(r)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	if err := r.watchRevocations(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	if again, _ := w.run(r); again != first {
		t.Fatal("replaced a good certificate")
	}
	r.Revoked.Add(revocation.Act{UID: "a"}, []revocation.Entry{revocation.EntryOf(first.Leaf, begin, pki.ReasonUnspecified)})
	queue.Get() // or the test would end by its time limit
	second, _ := w.run(r)
	if second == first || pki.SameKey(first.Leaf.PublicKey, second.Leaf.PublicKey) {
		t.Error("the certificate or its key is still the revoked one")
	}
}
