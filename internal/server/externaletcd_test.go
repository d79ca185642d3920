package server_test

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/datadir"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/server"
)

// Two servers, each with a data directory of its own, share one external etcd
// that demands client certificates: what one stores, the other serves. They
// share keys, too: without them the second would store what the first cannot
// read.
func TestServersShareAnExternalEtcd(t *testing.T) {
	store := startExternalEtcd(t)
	useStore := func(cfg *server.Config) { cfg.Etcd = store }
	first := apitest.Start(t, useStore)
	stranger := first.Config
	stranger.DataDir = t.TempDir()
	err := server.Run(t.Context(), stranger, func(server.Ready) { t.Error("a server without the keys of the store started") })
	if err == nil || !strings.Contains(err.Error(), "copy the folder pki") {
		t.Errorf("a server without the keys of the store says %v", err)
	}
	second := apitest.Start(t, useStore, func(cfg *server.Config) { copyPKI(t, first.Config.DataDir, cfg.DataDir) })

	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "shared"}}
	if _, err := apitest.Client(t, first.Admin(t)).RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := apitest.Client(t, second.Admin(t)).RbacV1().ClusterRoles().Get(t.Context(), "shared", metav1.GetOptions{}); err != nil {
		t.Errorf("the second server does not see what the first one stored: %v", err)
	}
	if _, err := os.Stat(filepath.Join(first.Config.DataDir, "etcd")); !os.IsNotExist(err) {
		t.Errorf("a server with an external etcd made one of its own: %v", err)
	}
}

func copyPKI(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(datadir.Dir(to).PKI(), os.DirFS(datadir.Dir(from).PKI())); err != nil {
		t.Fatal(err)
	}
}

// startExternalEtcd runs an etcd on a loopback port with TLS both ways and
// returns the configuration to reach it.
func startExternalEtcd(t *testing.T) server.EtcdConfig {
	t.Helper()
	dir := t.TempDir()
	ca := newAuthority(t)
	caFile := filepath.Join(dir, "ca.crt")
	writeFile(t, caFile, pki.EncodeCertificates(ca.Certificate()))
	serverCert, serverKey := issue(t, ca, dir, "server", pki.ServerUsages())
	clientCert, clientKey := issue(t, ca, dir, "client", pki.ClientUsages())

	endpoint := url.URL{Scheme: "https", Host: freeAddress(t)}
	cfg := embed.NewConfig()
	cfg.Dir = filepath.Join(dir, "etcd")
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{endpoint}, []url.URL{endpoint}
	cfg.ListenPeerUrls = nil
	cfg.ClientTLSInfo = transport.TLSInfo{
		CertFile: serverCert, KeyFile: serverKey, TrustedCAFile: caFile, ClientCertAuth: true,
	}
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Close)
	<-etcd.Server.ReadyNotify()
	return server.EtcdConfig{
		Servers: []string{endpoint.String()}, Prefix: "/registry",
		CAFile: caFile, CertFile: clientCert, KeyFile: clientKey,
	}
}

func newAuthority(t *testing.T) *pki.Authority {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.NewRoot("etcd CA", key, time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// issue writes a certificate for 127.0.0.1 and its key into dir.
func issue(t *testing.T, ca *pki.Authority, dir, name string, usages pki.Usages) (certFile, keyFile string) {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	subject := pki.Subject{CommonName: name, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	chain, err := ca.Issue(subject, key.Public(), usages, time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := pki.EncodePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	writeFile(t, certFile, pki.EncodeCertificates(chain...))
	writeFile(t, keyFile, keyPEM)
	return certFile, keyFile
}

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
