package stepca

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/acme/solver/dns/dnstest"
	"github.com/certplane/certplane/internal/acme/solver/selfcheck"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/run/server"
)

// tsigSecret signs the updates of the DNS server.
var tsigSecret = base64.StdEncoding.EncodeToString([]byte("a secret of 32 bytes for updates"))

// world is a standalone server, a step-ca, and a DNS server for example.com.
type world struct {
	t     *testing.T
	admin client.Client
	ca    *stepCA
	names *dnstest.Server
	view  view
}

// newWorld starts the three. The CA finds some hosts elsewhere.
func newWorld(t *testing.T, hosts map[string]string) *world {
	t.Helper()
	w := &world{t: t}
	w.names = dnstest.Start(t, dnstest.Options{Keys: map[string]dnstest.Key{"updates.": {Algorithm: dns.HmacSHA256, Secret: tsigSecret}}},
		"example.com. 300 IN SOA ns1.example.com. admin.example.com. 1 3600 600 86400 60")
	w.view = view{http: freeAddress(t), tls: freeAddress(t), resolver: w.names.Addr, hosts: hosts}
	w.ca = startStepCA(t, w.view)
	running := apitest.Start(t, func(cfg *server.Config) {
		cfg.ACME.HTTP01.Listen, cfg.ACME.TLSALPN01.Listen = []string{w.view.http}, []string{w.view.tls}
		// The ports of the names' public addresses are not ours.
		cfg.ACME.HTTP01.SelfCheck, cfg.ACME.TLSALPN01.SelfCheck = selfcheck.Local, selfcheck.Local
		cfg.ACME.DNS01.RecursiveNameservers = []string{w.names.Addr}
		cfg.ACME.DNS01.RecursiveNameserversOnly = true
		cfg.ACME.DNS01.PropagationDelay = &metav1.Duration{}
	})
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, cmv1.AddToScheme, acmev1.AddToScheme} {
		if err := add(kinds); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if w.admin, err = client.New(running.Admin(t), client.Options{Scheme: kinds}); err != nil {
		t.Fatal(err)
	}
	return w
}

// freeAddress returns an address of this host that nothing listens on now.
func freeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	if err := w.admin.Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) get(o client.Object) {
	w.t.Helper()
	if err := w.admin.Get(w.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) secret(name, key, value string) cmmeta.SecretKeySelector {
	w.t.Helper()
	w.create(&corev1.Secret{ObjectMeta: named(name), StringData: map[string]string{key: value}})
	return cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: name}, Key: key}
}

// issuer creates an Issuer of the provisioner that is open to everybody, and
// waits until its condition Ready has this status. It returns the message.
func (w *world) issuer(name string, want cmmeta.ConditionStatus, edit func(*acmev1.ACMEIssuer)) (message string) {
	w.t.Helper()
	settings := &acmev1.ACMEIssuer{
		Server: w.ca.directory(open), CABundle: w.ca.bundle,
		PrivateKey: cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: name + "-account"}},
	}
	edit(settings)
	issuer := &cmv1.Issuer{ObjectMeta: named(name), Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{ACME: settings}}}
	w.create(issuer)
	w.eventually("the issuer "+name+" is Ready="+string(want), func() bool {
		w.get(issuer)
		for _, c := range issuer.Status.Conditions {
			message = c.Message
			if c.Type == cmv1.IssuerConditionReady && c.Status == want {
				return true
			}
		}
		return false
	})
	return message
}

// certificate creates a Certificate and returns the issued certificate, which must lead to
// the root of the CA.
func (w *world) certificate(name, issuer string, edit func(*cmv1.CertificateSpec)) *x509.Certificate {
	w.t.Helper()
	cert := &cmv1.Certificate{ObjectMeta: named(name)}
	cert.Spec = cmv1.CertificateSpec{SecretName: name + "-tls", IssuerRef: cmmeta.IssuerReference{Name: issuer}}
	edit(&cert.Spec)
	w.create(cert)
	return w.issued(name)
}

// issued waits until a Certificate is ready, and returns the issued certificate.
func (w *world) issued(name string) *x509.Certificate {
	w.t.Helper()
	cert := &cmv1.Certificate{ObjectMeta: named(name)}
	w.eventually("the certificate "+name+" is ready", func() bool {
		w.get(cert)
		for _, c := range cert.Status.Conditions {
			if c.Type == cmv1.CertificateConditionReady && c.Status == cmmeta.ConditionTrue {
				return true
			}
		}
		return false
	})
	secret := &corev1.Secret{ObjectMeta: named(name + "-tls")}
	w.get(secret)
	first, rest := pem.Decode(secret.Data[corev1.TLSCertKey])
	if first == nil {
		w.t.Fatalf("no certificate in %q", secret.Data[corev1.TLSCertKey])
	}
	leaf, err := x509.ParseCertificate(first.Bytes)
	if err != nil {
		w.t.Fatal(err)
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(w.ca.roots.Root)
	between.AppendCertsFromPEM(rest)
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between}); err != nil {
		w.t.Errorf("%s: %v", name, err)
	}
	return leaf
}

// leftovers waits until no Challenges exist.
func (w *world) leftovers() {
	w.t.Helper()
	w.eventually("no challenge is left", func() bool {
		var left acmev1.ChallengeList
		return w.admin.List(w.t.Context(), &left) == nil && len(left.Items) == 0
	})
}

// eventually waits for what a server does on its own.
func (w *world) eventually(what string, holds func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		if holds() {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-w.t.Context().Done():
			w.t.Fatalf("the test ended before %s", what)
		}
	}
	w.t.Fatalf("gave up waiting until %s", what)
}

// of returns the world for a subtest.
func (w *world) of(t *testing.T) *world {
	other := *w
	other.t = t
	return &other
}

// forward passes connections from one address to another until the test ends.
func forward(t testing.TB, from, to string) {
	t.Helper()
	listener, err := net.Listen("tcp", from)
	if err != nil {
		t.Fatal(err)
	}
	target := &url.URL{Scheme: "http", Host: to}
	proxy := &http.Server{Handler: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}}
	go func() { _ = proxy.Serve(listener) }()
	t.Cleanup(func() { _ = proxy.Close() })
}
