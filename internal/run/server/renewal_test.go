package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/clientcmd"
	testclock "k8s.io/utils/clock/testing"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
	"github.com/certplane/certplane/internal/store/datadir"
)

// A server that runs for longer than its certificates live always serves a
// valid one, and its administrator always has one.
func TestRenewalWhileServing(t *testing.T) {
	r, now := newTestRenewal(t)
	address := serve(t, r.serving)
	roots := x509.NewCertPool()
	roots.AddCert(r.credentials.servingRoot.Certificate())
	first := shown(t, address)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.run(ctx) }()

	for !now.HasWaiters() {
		time.Sleep(time.Millisecond) // for the goroutine, not for a time to pass
	}
	now.SetTime(first.NotAfter.Add(-renewBefore))
	var renewed *x509.Certificate
	for renewed = shown(t, address); renewed.Equal(first); renewed = shown(t, address) {
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if _, err := renewed.Verify(x509.VerifyOptions{Roots: roots, DNSName: "localhost", CurrentTime: first.NotAfter.Add(time.Hour)}); err != nil {
		t.Errorf("clients do not accept the renewed certificate: %v", err)
	}
	if until := adminCertificate(t, r.dir).NotAfter; !until.After(first.NotAfter) {
		t.Errorf("the kubeconfig's certificate still ends on %v", until)
	}
}

// What is revoked is replaced at once: the next look by the clock is in ten minutes.
func TestRevokedCertificatesAreReplaced(t *testing.T) {
	r, now := newTestRenewal(t)
	address := serve(t, r.serving)
	served, admin := shown(t, address), adminCertificate(t, r.dir)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.run(ctx) }()
	revoked := r.credentials.revoked
	for i, cert := range []*x509.Certificate{served, admin} {
		act := revocation.Act{UID: types.UID(rune('a' + i)), Revision: int64(i)}
		revoked.Add(act, []revocation.Entry{revocation.EntryOf(cert, now.Now(), pki.ReasonUnspecified)})
	}
	for shown(t, address).Equal(served) || adminCertificate(t, r.dir).Equal(admin) {
		if len(ended) > 0 {
			t.Fatal(<-ended)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if key := adminCertificate(t, r.dir).PublicKey; pki.SameKey(key, admin.PublicKey) {
		t.Error("the administrator has the same key again")
	}
}

func TestRenewalLeavesGoodCertificates(t *testing.T) {
	r, now := newTestRenewal(t)
	before := r.credentials.serving.chain[0]
	if err := r.renew(now.Now().Add(leafLifetime - renewBefore - time.Hour)); err != nil {
		t.Fatal(err)
	}
	if !r.credentials.serving.chain[0].Equal(before) {
		t.Error("renewed a certificate that is good for more than a month")
	}
}

func newTestRenewal(t *testing.T) (*renewal, *testclock.FakeClock) {
	t.Helper()
	dir, names, now := datadir.Dir(t.TempDir()), []string{"localhost", "127.0.0.1"}, testclock.NewFakeClock(time.Now())
	credentials, err := openPKI(unrecorded, dir.PKI(), names, now.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := writeKubeconfig(dir.AdminKubeconfig(), "https://localhost", credentials); err != nil {
		t.Fatal(err)
	}
	credentials.revoked = revocation.NewIndex()
	return &renewal{
		dir: dir, names: names, url: "https://localhost", clock: now,
		credentials: credentials, serving: newServingCert(credentials.serving),
		recordKeys: func(context.Context) error { return nil },
		latestCA:   func(_ context.Context, mine clientCA) (clientCA, error) { return mine, nil },
	}, now
}

// serve answers with cert, as the API server does.
func serve(t *testing.T, cert *servingCert) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	serving := genericapiserver.SecureServingInfo{Listener: listener, Cert: cert}
	stopped, _, err := serving.Serve(http.NotFoundHandler(), time.Second, stop)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { close(stop); <-stopped })
	return listener.Addr().String()
}

// shown returns the certificate that a new client sees.
func shown(t *testing.T, address string) *x509.Certificate {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0]
}

func adminCertificate(t *testing.T, dir datadir.Dir) *x509.Certificate {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", dir.AdminKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	chain, err := pki.ParseBundle(cfg.CertData)
	if err != nil {
		t.Fatal(err)
	}
	return chain[0]
}
