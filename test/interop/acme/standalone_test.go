package acme

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/acme/solver/selfcheck"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/run/server"
)

// world is a standalone server, an ACME server, and a DNS server in which every
// name is on this host.
type world struct {
	t *testing.T
	*apitest.Server
	admin client.WithWatch
	acme  *pebble
	// ports are where challenges are answered.
	httpPort, tlsPort int
	// resolver is the address of the DNS server.
	resolver string
}

// newWorld starts the three. The resolver of the ACME server is theirs.
func newWorld(t *testing.T, o pebbleOptions, options ...func(*server.Config)) *world {
	t.Helper()
	w := &world{t: t, httpPort: freePort(t), tlsPort: freePort(t)}
	if o.resolver == "" {
		_, o.resolver = startDNS(t)
	}
	w.resolver, o.httpPort, o.tlsPort = o.resolver, w.httpPort, w.tlsPort
	w.acme = startPebble(t, o)
	w.Server = apitest.Start(t, append([]func(*server.Config){func(cfg *server.Config) {
		cfg.ACME.HTTP01.Listen = []string{loopback(w.httpPort)}
		cfg.ACME.TLSALPN01.Listen = []string{loopback(w.tlsPort)}
		// The ports of the names' public addresses are not ours.
		cfg.ACME.HTTP01.SelfCheck, cfg.ACME.TLSALPN01.SelfCheck = selfcheck.Local, selfcheck.Local
	}}, options...)...)
	w.connect()
	return w
}

// connect makes the clients of the server, which is at another address after
// each restart.
func (w *world) connect() {
	w.t.Helper()
	w.admin = newAdmin(w.t, w.Admin(w.t))
}

// newAdmin returns a client for all kinds.
func newAdmin(t testing.TB, cfg *rest.Config) client.WithWatch {
	t.Helper()
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, cmv1.AddToScheme, acmev1.AddToScheme} {
		if err := add(kinds); err != nil {
			t.Fatal(err)
		}
	}
	admin, err := client.NewWithWatch(cfg, client.Options{Scheme: kinds})
	if err != nil {
		t.Fatal(err)
	}
	return admin
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", fmt.Sprint(port)) }

func (w *world) create(o client.Object) {
	w.t.Helper()
	if err := w.admin.Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

// issuer creates an Issuer with an account of the ACME server, and waits until
// it is ready.
func (w *world) issuer(name string, solvers ...acmev1.ACMEChallengeSolver) {
	w.t.Helper()
	w.createIssuer(name, solvers...)
	w.issuerReady(cmmeta.IssuerReference{Name: name})
}

func (w *world) createIssuer(name string, solvers ...acmev1.ACMEChallengeSolver) {
	w.t.Helper()
	w.create(newIssuer(w.acme, metav1.NamespaceDefault, name, solvers...))
}

// newIssuer returns an Issuer with an account of an ACME server.
func newIssuer(of *pebble, namespace, name string, solvers ...acmev1.ACMEChallengeSolver) *cmv1.Issuer {
	return &cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: issuerSpec(of, name, solvers...)}
}

// issuerSpec returns the spec of an issuer with an account of an ACME server.
func issuerSpec(of *pebble, name string, solvers ...acmev1.ACMEChallengeSolver) cmv1.IssuerSpec {
	return cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{ACME: &acmev1.ACMEIssuer{
		Server: of.directory, CABundle: of.bundle, Email: "admin@example.com", Solvers: solvers,
		PrivateKey: cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: name + "-account"}},
	}}}
}

// issuerReady waits until an issuer is ready.
func (w *world) issuerReady(ref cmmeta.IssuerReference) cmv1.GenericIssuer {
	w.t.Helper()
	var issuer cmv1.GenericIssuer = &cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: ref.Name}}
	if ref.Kind == cmv1.ClusterIssuerKind {
		issuer = &cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: ref.Name}}
	}
	becomesReady(w.t, w.admin, issuer)
	return issuer
}

// createReady creates an Issuer and waits until it is ready.
func createReady(t testing.TB, admin client.Client, issuer *cmv1.Issuer) {
	t.Helper()
	if err := admin.Create(t.Context(), issuer); err != nil {
		t.Fatal(err)
	}
	becomesReady(t, admin, issuer)
}

func becomesReady(t testing.TB, admin client.Client, issuer cmv1.GenericIssuer) {
	t.Helper()
	eventually(t, "the issuer is ready", func() bool {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(issuer), issuer); err != nil {
			t.Fatal(err)
		}
		conditions := issuer.GetStatus().Conditions
		return len(conditions) > 0 && conditions[0].Status == cmmeta.ConditionTrue
	})
}

func (w *world) get(o client.Object) {
	w.t.Helper()
	if err := w.admin.Get(w.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		w.t.Fatal(err)
	}
}

// certificate creates a Certificate and returns the issued certificate.
func (w *world) certificate(name, issuer string, edit func(*cmv1.CertificateSpec)) *x509.Certificate {
	w.t.Helper()
	cert := &cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	cert.Spec = cmv1.CertificateSpec{SecretName: name + "-tls", IssuerRef: cmmeta.IssuerReference{Name: issuer}}
	edit(&cert.Spec)
	w.create(cert)
	return w.issued(name)
}

// issued waits until a Certificate is ready, and returns the issued certificate.
func (w *world) issued(name string) *x509.Certificate {
	w.t.Helper()
	cert := &cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	w.ready(cert)
	return w.leaf(cert)
}

// leaf returns the certificate in the Secret of a Certificate.
func (w *world) leaf(cert *cmv1.Certificate) *x509.Certificate {
	w.t.Helper()
	secret := w.secret(cert)
	block, _ := pem.Decode(secret.Data[corev1.TLSCertKey])
	if block == nil {
		w.t.Fatalf("no certificate in %q", secret.Data[corev1.TLSCertKey])
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		w.t.Fatal(err)
	}
	return leaf
}

// ready waits until a Certificate is ready.
func (w *world) ready(cert *cmv1.Certificate) {
	w.t.Helper()
	eventually(w.t, "the certificate "+cert.Name+" is ready", func() bool {
		w.get(cert)
		for _, c := range cert.Status.Conditions {
			if c.Type == cmv1.CertificateConditionReady && c.Status == cmmeta.ConditionTrue && c.ObservedGeneration == cert.Generation {
				return true
			}
		}
		return false
	})
}

// leftovers waits until no Challenges exist.
func (w *world) leftovers() {
	w.t.Helper()
	eventually(w.t, "no challenge is left", func() bool {
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		defer cancel()
		var left acmev1.ChallengeList
		return w.admin.List(ctx, &left) == nil && len(left.Items) == 0
	})
}

var (
	byHTTP    = acmev1.ACMEChallengeSolver{HTTP01: &acmev1.ACMEChallengeSolverHTTP01{Ingress: &acmev1.ACMEChallengeSolverHTTP01Ingress{}}}
	byTLSALPN = acmev1.ACMEChallengeSolver{DNS01: &acmev1.ACMEChallengeSolverDNS01{
		Webhook: &acmev1.ACMEIssuerDNS01ProviderWebhook{GroupName: "acme.certplane.dev", SolverName: "tls-alpn-01"},
	}}
)

// Certificates are issued by a server without a cluster.
func TestStandalone(t *testing.T) {
	w := newWorld(t, pebbleOptions{})
	w.issuer("http", byHTTP)
	w.issuer("alpn", byTLSALPN)
	leaf := w.certificate("web", "http", func(s *cmv1.CertificateSpec) { s.DNSNames = []string{"a.example.com", "b.example.com"} })
	if len(leaf.DNSNames) != 2 || leaf.VerifyHostname("b.example.com") != nil {
		t.Errorf("names %v", leaf.DNSNames)
	}
	leaf = w.certificate("address", "http", func(s *cmv1.CertificateSpec) {
		s.IPAddresses = []string{"127.0.0.1"}
		s.DNSNames = []string{"c.example.com"}
	})
	if leaf.VerifyHostname("127.0.0.1") != nil {
		t.Errorf("addresses %v", leaf.IPAddresses)
	}
	leaf = w.certificate("alpn", "alpn", func(s *cmv1.CertificateSpec) {
		s.DNSNames = []string{"d.example.com"}
		s.IPAddresses = []string{"127.0.0.1"}
	})
	if leaf.VerifyHostname("d.example.com") != nil {
		t.Errorf("names %v", leaf.DNSNames)
	}
	w.leftovers()
}
