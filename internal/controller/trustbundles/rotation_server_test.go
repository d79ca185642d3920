package trustbundles_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

const (
	// propagation is how long the next root is published before its CA signs: a busy machine
	// must pass the root on to the clients in this time. With 0, handshakes fail.
	propagation = 45 * time.Second
	// clients make handshakes all the time, this many per second together.
	clients, handshakeRate = 1000, 250
)

// fleet is clients of TLS servers that read their roots from the target of a TrustBundle.
type fleet struct {
	roots atomic.Pointer[x509.CertPool]
	// first and last are the certificates of a server that keeps its certificate, and of one
	// that always has a new one.
	first, last atomic.Pointer[tls.Certificate]
	made        atomic.Int64
	// changed means that last is of the next CA; after counts the handshakes since then by client.
	changed atomic.Bool
	after   [clients]atomic.Int64
}

// run makes handshakes with both servers in turn until ctx ends, and returns the first failure.
func (f *fleet) run(ctx context.Context, i int, limit flowcontrol.RateLimiter) error {
	for round := 0; limit.Wait(ctx) == nil; round++ {
		cert, changed := f.first.Load(), f.changed.Load()
		if round%2 == 1 {
			cert = f.last.Load()
		}
		near, far := net.Pipe()
		go func() {
			_ = tls.Server(far, &tls.Config{Certificates: []tls.Certificate{*cert}, SessionTicketsDisabled: true}).Handshake()
			_ = far.Close()
		}()
		err := tls.Client(near, &tls.Config{RootCAs: f.roots.Load(), ServerName: "web.example.com"}).Handshake()
		_ = near.Close()
		if err != nil {
			return fmt.Errorf("client %d: %w", i, err)
		}
		f.made.Add(1)
		if changed {
			f.after[i].Add(1)
		}
	}
	return nil
}

// issue returns a new certificate of a server.
func issue(t *testing.T, core kubernetes.Interface, name string) *tls.Certificate {
	t.Helper()
	key := apitest.NewKey(t)
	csr := apitest.NewCSR(t, name, "example.com/web", pki.Subject{}, key)
	csr.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
	csr = apitest.Decide(t, core, apitest.Create(t, core, csr), certificatesv1.CertificateApproved)
	chain, err := pki.ParseCertificates(apitest.Issued(t, core, csr))
	if err != nil {
		t.Fatal(err)
	}
	made := &tls.Certificate{PrivateKey: key, Leaf: chain[0]}
	for _, cert := range chain {
		made.Certificate = append(made.Certificate, cert.Raw)
	}
	return made
}

// The CA of a Signer is replaced while clients that read the target of a TrustBundle make
// handshakes: none fails, neither with certificates of the former CA nor of the next one.
func TestRotationOfSigner(t *testing.T) {
	w := worldOf(t, apitest.Start(t, func(c *server.Config) { c.DeclaredSigners.Propagation.Duration = propagation }))
	core := apitest.Client(t, w.Admin(t))
	signer := &v1alpha1.Signer{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: v1alpha1.SignerSpec{
		SignerName: "example.com/web", Requests: []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests}, CA: v1alpha1.SignerCA{Generated: &v1alpha1.GeneratedCA{}},
		Profile: v1alpha1.SignerProfile{
			Names:  v1alpha1.NamesProfile{DNSNames: `["web.example.com"]`},
			Usages: []string{"digital signature", "server auth"}, Lifetime: v1alpha1.LifetimeProfile{Maximum: &metav1.Duration{Duration: 2 * time.Hour}},
		},
	}}
	w.create(t, signer)
	w.create(t, w.bundle(t, "trust", `[{"signer": {"name": "example.com/web"}}]`))
	w.await(t, "trust", "Synced")

	f := &fleet{}
	read := func(ctx context.Context) error {
		target := &corev1.ConfigMap{}
		err := w.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "trust"}, target)
		if err == nil {
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM([]byte(target.Data["ca.crt"]))
			f.roots.Store(pool)
		}
		return err
	}
	if err := read(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.first.Store(issue(t, core, "first"))
	f.last.Store(f.first.Load())
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	failures := make(chan error, clients+1)
	looks := flowcontrol.NewTokenBucketRateLimiter(2, 1) // as a kubelet does for all pods of its host
	work.Go(func() {
		for looks.Wait(ctx) == nil {
			if err := read(ctx); err != nil && ctx.Err() == nil {
				failures <- fmt.Errorf("reading the target: %w", err)
				return
			}
		}
	})
	limit := flowcontrol.NewTokenBucketRateLimiter(handshakeRate, 1)
	for i := range clients {
		work.Go(func() {
			if err := f.run(ctx, i, limit); err != nil {
				failures <- err
			}
		})
	}

	change := signer.DeepCopy()
	change.Annotations = map[string]string{"certplane.dev/rotate-ca": "1"}
	if err := w.Patch(t.Context(), change, client.MergeFrom(signer)); err != nil {
		t.Fatal(err)
	}
	failed := func() {
		t.Helper()
		if len(failures) > 0 {
			t.Fatal(<-failures)
		}
	}
	for i := 0; !f.changed.Load(); i++ {
		f.last.Store(issue(t, core, fmt.Sprintf("last-%d", i)))
		f.changed.Store(!bytes.Equal(f.last.Load().Leaf.AuthorityKeyId, f.first.Load().Leaf.AuthorityKeyId))
		failed()
	}
	before := f.made.Load()
	for handshakes := range int64(2) {
		apitest.Eventually(t, "each client makes handshakes with both servers after the change", func() bool {
			failed()
			for i := range clients {
				if f.after[i].Load() <= handshakes {
					return false
				}
			}
			return true
		})
	}
	cancel()
	work.Wait()
	failed()
	t.Logf("%d clients made %d handshakes before the change, and %d after it", clients, before, f.made.Load()-before)
}
