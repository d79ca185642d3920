package server_test

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
	"github.com/certplane/certplane/internal/store/backup"
	"github.com/certplane/certplane/internal/store/datadir"
)

// Two servers, each with a data directory of its own, share one external etcd
// that demands client certificates: what one stores, the other serves. They
// share keys, too: without them the second would store what the first cannot
// read.
func TestServersShareAnExternalEtcd(t *testing.T) {
	t.Parallel()
	store := startExternalEtcd(t)
	useStore := func(cfg *server.Config) { cfg.Etcd = store }
	first := apitest.Start(t, useStore)
	stranger := first.Config
	stranger.DataDir = t.TempDir()
	err := server.Run(t.Context(), stranger, func(server.Ready) { t.Error("a server without the keys of the store started") })
	if err == nil || !strings.Contains(err.Error(), "certplane pki import") {
		t.Errorf("a server without the keys of the store says %v", err)
	}
	port := netip.MustParseAddrPort(strings.TrimPrefix(first.URL, "https://")).Port()
	second := apitest.Start(t, useStore, func(cfg *server.Config) {
		sharePKI(t, first.Config.DataDir, cfg.DataDir)
		cfg.Serving.AdvertiseAddress = fmt.Sprint("192.0.2.7:", port)
	})
	awaitService(t, first, port, "127.0.0.1", "192.0.2.7")

	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "shared"}}
	if _, err := apitest.Client(t, first.Admin(t)).RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := apitest.Client(t, second.Admin(t)).RbacV1().ClusterRoles().Get(t.Context(), "shared", metav1.GetOptions{}); err != nil {
		t.Errorf("the second server does not see what the first one stored: %v", err)
	}
	awaitRecord(t, first, second)
	second.Stop(t)
	awaitService(t, first, port, "127.0.0.1")
	if _, err := os.Stat(filepath.Join(first.Config.DataDir, "etcd")); !os.IsNotExist(err) {
		t.Errorf("a server with an external etcd made one of its own: %v", err)
	}
}

// awaitRecord has one server issue a certificate, and waits until the inventory of the
// other has it, with who has approved.
func awaitRecord(t *testing.T, issues, other *apitest.Server) {
	t.Helper()
	requests := apitest.Client(t, issues.Admin(t)).CertificatesV1().CertificateSigningRequests()
	csr := apitest.NewCSR(t, "recorded", certificatesv1.KubeAPIServerClientSignerName, pki.Subject{CommonName: "recorded"}, apitest.NewKey(t))
	csr, err := requests.Create(t.Context(), csr, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test",
	}}
	if _, err := requests.UpdateApproval(t.Context(), csr.Name, csr, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(other.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	records := client.Resource(inventoryv1alpha1.GroupVersion.WithResource("issuedcertificates"))
	apitest.Eventually(t, "the other server has the record", func() bool {
		list, err := records.List(t.Context(), metav1.ListOptions{FieldSelector: inventoryv1alpha1.NameField + "=recorded"})
		if err != nil || len(list.Items) != 1 {
			return false
		}
		approvers, _, err := unstructured.NestedStringSlice(list.Items[0].Object, "approval", "approvers")
		if err != nil || len(approvers) != 1 {
			t.Errorf("the approvers are %q, %v", approvers, err)
		}
		return true
	})
}

// awaitService waits until the Service default/kubernetes names these addresses
// and a port.
func awaitService(t *testing.T, s *apitest.Server, port uint16, addresses ...string) {
	t.Helper()
	services := apitest.Client(t, s.Admin(t)).CoreV1().Services(metav1.NamespaceDefault)
	apitest.Eventually(t, fmt.Sprint("Service default/kubernetes names ", addresses), func() bool {
		service, err := services.Get(t.Context(), "kubernetes", metav1.GetOptions{})
		return err == nil && slices.Equal(service.Spec.ExternalIPs, addresses) &&
			len(service.Spec.Ports) == 1 && service.Spec.Ports[0].Port == int32(port)
	})
}

// sharePKI brings the keys of one server to another, as an operator does.
func sharePKI(t *testing.T, from, to string) {
	t.Helper()
	file, protection := filepath.Join(t.TempDir(), "keys"), backup.Protection{Passphrase: "correct horse"}
	if _, err := backup.ExportKeys(file, datadir.Dir(from), protection, time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.ImportKeys(file, datadir.Dir(to), protection); err != nil {
		t.Fatal(err)
	}
}

// startExternalEtcd runs an etcd on a loopback port with TLS both ways and
// returns the configuration to reach it.
func startExternalEtcd(t *testing.T, options ...func(*embed.Config)) server.EtcdConfig {
	t.Helper()
	dir := t.TempDir()
	ca := newAuthority(t)
	caFile := filepath.Join(dir, "ca.crt")
	writeFile(t, caFile, pki.EncodeCertificates(ca.Certificate()))
	serverCert, serverKey := issue(t, ca, dir, "server", pki.ServerUsages())
	clientCert, clientKey := issue(t, ca, dir, "client", pki.ClientUsages())

	endpoint := url.URL{Scheme: "https", Host: apitest.FreeAddress(t)}
	cfg := embed.NewConfig()
	cfg.Dir = filepath.Join(dir, "etcd")
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{endpoint}, []url.URL{endpoint}
	cfg.ListenPeerUrls = nil
	cfg.ClientTLSInfo = transport.TLSInfo{
		CertFile: serverCert, KeyFile: serverKey, TrustedCAFile: caFile, ClientCertAuth: true,
	}
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	for _, option := range options {
		option(cfg)
	}
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
	ca, err := pki.NewRoot(pki.UnrecordedSigning, "etcd CA", key, time.Hour, time.Now())
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
	chain, err := ca.Issue(pki.UnrecordedSigning, subject, key.Public(), usages, time.Hour, time.Now())
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
