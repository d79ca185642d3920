package server_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/apitest"
)

// A client that finds the API by the Service default/kubernetes reaches it
// there, by its name.
func TestServiceSaysWhereTheAPIIs(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	awaitService(t, s, netip.MustParseAddrPort(strings.TrimPrefix(s.URL, "https://")).Port(), "127.0.0.1")
	service, err := apitest.Client(t, s.Admin(t)).CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if service.Labels["component"] != "apiserver" || service.Labels["provider"] != "kubernetes" || service.Spec.ClusterIP != "None" {
		t.Errorf("labels %v, cluster IP %s", service.Labels, service.Spec.ClusterIP)
	}
	roots := x509.NewCertPool()
	ca, err := os.ReadFile(filepath.Join(s.Config.DataDir, "pki", "serving-ca.crt"))
	if err != nil || !roots.AppendCertsFromPEM(ca) {
		t.Fatal(err)
	}
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: "kubernetes.default.svc"}}
	conn, err := dialer.DialContext(t.Context(), "tcp", net.JoinHostPort(service.Spec.ExternalIPs[0], strconv.Itoa(int(service.Spec.Ports[0].Port))))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if err := apitest.Client(t, s.Admin(t)).CoreV1().Services(metav1.NamespaceDefault).Delete(t.Context(), "kubernetes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitService(t, s, uint16(service.Spec.Ports[0].Port), "127.0.0.1")
}
