package vault

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

// shared is a server for all tests.
var shared = &apitest.Shared{Options: []func(*server.Config){loopback}}

func loopback(cfg *server.Config) { cfg.CertManager.Vault.AllowLoopback = true }

// vaultOnce has the Vault of all tests that do not stop it.
var vaultOnce struct {
	sync.Once
	peer *peer
	dir  string
}

// sharedVault returns a Vault for all tests. Each test has separate mounts.
func sharedVault(t *testing.T) *peer {
	t.Helper()
	findVault(t)
	vaultOnce.Do(func() {
		dir, err := os.MkdirTemp("", "vault-")
		if err != nil {
			t.Fatal(err)
		}
		vaultOnce.dir = dir
		vaultOnce.peer = startVault(t, dir)
	})
	if vaultOnce.peer == nil {
		t.Fatal("Vault could not be started")
	}
	return vaultOnce.peer
}

// ownVault returns a Vault for one test.
func ownVault(t *testing.T, extra ...string) *peer {
	t.Helper()
	p := startVault(t, t.TempDir(), extra...)
	t.Cleanup(func() {
		if err := p.stop(); err != nil {
			t.Log(err)
		}
	})
	return p
}

// mutualVault returns a Vault that requires a client certificate. The tests have one.
func mutualVault(t *testing.T, dir, clients string, certificate, key []byte) *peer {
	t.Helper()
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	p := startVaultFor(t, dir, &pair, "-client-ca", clients)
	t.Cleanup(func() {
		if err := p.stop(); err != nil {
			t.Log(err)
		}
	})
	return p
}

// nonsense are the variables that configure Vault's own clients: the issuers must ignore
// all of them.
var nonsense = []string{
	"VAULT_ADDR", "VAULT_AGENT_ADDR", "VAULT_SKIP_VERIFY", "VAULT_CACERT", "VAULT_CACERT_BYTES", "VAULT_CAPATH", "VAULT_CLIENT_CERT", "VAULT_CLIENT_KEY",
	"VAULT_TLS_SERVER_NAME", "VAULT_CLIENT_TIMEOUT", "VAULT_MAX_RETRIES", "VAULT_RATE_LIMIT", "VAULT_PROXY_ADDR", "VAULT_HTTP_PROXY",
	"VAULT_SRV_LOOKUP", "VAULT_TOKEN", "VAULT_NAMESPACE", "VAULT_HEADERS", "VAULT_WRAP_TTL", "VAULT_DISABLE_REDIRECTS",
}

func TestMain(m *testing.M) {
	for _, name := range nonsense {
		os.Setenv(name, "https://127.0.0.1:1/nonsense")
	}
	code := m.Run()
	// certplane revokes its tokens when it ends.
	err := shared.Stop()
	if p := vaultOnce.peer; p != nil {
		err = errors.Join(err, p.stop())
	}
	if err = errors.Join(err, os.RemoveAll(vaultOnce.dir)); err != nil {
		fmt.Fprintln(os.Stderr, "ending the servers:", err)
		code = 1
	}
	os.Exit(code)
}

// world is certplane and a server with Vault's API: one namespace here, one PKI
// engine there, with a role for all names below example.com.
type world struct {
	*apitest.Server
	t         *testing.T
	admin     client.Client
	kinds     *runtime.Scheme
	namespace string

	peer  *peer
	proxy *proxy
	// pki and approle are where the engine and the login are mounted; root is the
	// CA.
	pki, approle, policy string
	root                 *x509.Certificate
	roleID               string
}

func newWorld(t *testing.T, p *peer) *world { return worldAt(t, p, shared.Start(t)) }

func worldAt(t *testing.T, p *peer, s *apitest.Server) *world {
	t.Helper()
	w := &world{t: t, Server: s, peer: p, proxy: startProxy(t, p), kinds: runtime.NewScheme()}
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, cmv1.AddToScheme} {
		if err := add(w.kinds); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if w.admin, err = client.New(w.Admin(t), client.Options{Scheme: w.kinds}); err != nil {
		t.Fatal(err)
	}
	w.namespace = apitest.OwnNamespace(t, apitest.Client(t, w.Admin(t)))
	w.setUp()
	return w
}

// setUp makes the engine, the role, the policy and the login.
func (w *world) setUp() {
	t, p := w.t, w.peer
	w.pki = p.enable(t, "mounts", "pki")
	p.write(t, "sys/mounts/"+w.pki+"/tune", map[string]any{"max_lease_ttl": "87600h"})
	w.root = w.newRoot("Example CA")
	p.write(t, w.pki+"/roles/web", map[string]any{
		"allowed_domains": "example.com", "allow_subdomains": true, "max_ttl": "2160h", "require_cn": false, "key_type": "any",
	})
	w.policy = mount("certplane")
	w.allow(`path "` + w.pki + `/*" { capabilities = ["update"] }`)
	w.approle = p.enable(t, "auth", "approle")
	w.newRole(map[string]any{"token_ttl": "1h", "token_max_ttl": "24h"})
	w.roleID = p.read(t, "auth/"+w.approle+"/role/certplane/role-id")["role_id"].(string)
}

// newRoot makes a new root in the engine, and returns it.
func (w *world) newRoot(name string) *x509.Certificate {
	w.t.Helper()
	made := w.peer.write(w.t, w.pki+"/root/generate/internal", map[string]any{"common_name": name, "ttl": "87600h", "key_type": "ec"})
	return parse(w.t, made["certificate"].(string))
}

// allow sets the policy of the issuers' tokens.
func (w *world) allow(policy string) {
	w.t.Helper()
	w.peer.write(w.t, "sys/policies/acl/"+w.policy, map[string]any{"policy": policy})
}

func (w *world) newRole(fields map[string]any) {
	w.t.Helper()
	fields["token_policies"] = w.policy
	w.peer.write(w.t, "auth/"+w.approle+"/role/certplane", fields)
}

func (w *world) secretID() string {
	w.t.Helper()
	return w.peer.write(w.t, "auth/"+w.approle+"/role/certplane/secret-id", map[string]any{})["secret_id"].(string)
}

func parse(t *testing.T, text string) *x509.Certificate {
	t.Helper()
	cert, err := pki.ParseFirst([]byte(text))
	if err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return cert
}

func (w *world) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.namespace, Name: name}
}

func (w *world) create(objects ...client.Object) {
	w.t.Helper()
	for _, o := range objects {
		if err := w.admin.Create(w.t.Context(), o); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) get(o client.Object) {
	w.t.Helper()
	if err := w.admin.Get(w.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		w.t.Fatal(err)
	}
}

// change writes an object, again after each conflict.
func (w *world) change(o client.Object, edit func()) {
	w.t.Helper()
	eventually(w.t, "the object is written", func() bool {
		w.get(o)
		edit()
		return w.admin.Update(w.t.Context(), o) == nil
	})
}

func (w *world) secret(name string, data map[string]string) *corev1.Secret {
	w.t.Helper()
	secret := &corev1.Secret{ObjectMeta: w.meta(name), StringData: data}
	w.create(secret)
	return secret
}

// byRole is the login of an issuer by the role of this world.
func (w *world) byRole(secret string) cmv1.VaultAuth {
	return cmv1.VaultAuth{AppRole: &cmv1.VaultAppRole{Path: w.approle, RoleId: w.roleID, SecretRef: selector(secret, "secretId")}}
}

func selector(name, key string) cmmeta.SecretKeySelector {
	return cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: name}, Key: key}
}

// spec is that of an issuer whose calls go through the proxy.
func (w *world) spec(auth cmv1.VaultAuth) *cmv1.VaultIssuer {
	return &cmv1.VaultIssuer{Server: w.proxy.URL, CABundle: w.proxy.bundle, Path: w.pki + "/sign/web", Auth: auth}
}

// issuer creates an Issuer.
func (w *world) issuer(name string, spec *cmv1.VaultIssuer) *cmv1.Issuer {
	w.t.Helper()
	issuer := &cmv1.Issuer{ObjectMeta: w.meta(name)}
	issuer.Spec.Vault = spec
	w.create(issuer)
	return issuer
}

// roleIssuer creates an Issuer that logs in by the role of this world.
func (w *world) roleIssuer(name string, edits ...func(*cmv1.VaultIssuer)) *cmv1.Issuer {
	w.t.Helper()
	w.secret(name+"-login", map[string]string{"secretId": w.secretID()})
	spec := w.spec(w.byRole(name + "-login"))
	for _, edit := range edits {
		edit(spec)
	}
	issuer := w.issuer(name, spec)
	w.ready(issuer)
	return issuer
}

// readiness is what an issuer's status says: status, reason and message.
func (w *world) readiness(of cmv1.GenericIssuer) string {
	w.t.Helper()
	w.get(of)
	for _, c := range of.GetStatus().Conditions {
		if c.Type == cmv1.IssuerConditionReady && c.ObservedGeneration == of.GetGeneration() {
			return fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
		}
	}
	return ""
}

// ready waits until an issuer is ready.
func (w *world) ready(of cmv1.GenericIssuer) {
	w.t.Helper()
	w.says(of, "True VaultVerified Vault verified")
}

// says waits until the readiness of an issuer begins with a text.
func (w *world) says(of cmv1.GenericIssuer, text string) {
	w.t.Helper()
	last := ""
	defer func() {
		if !strings.HasPrefix(last, text) {
			w.t.Logf("the issuer %s says %q", of.GetName(), last)
		}
	}()
	eventually(w.t, "the issuer "+of.GetName()+" says "+text, func() bool {
		last = w.readiness(of)
		return strings.HasPrefix(last, text)
	})
}

// request creates a CertificateRequest for a name, with a new key.
func (w *world) request(name, issuer string, edits ...func(*cmv1.CertificateRequest)) *cmv1.CertificateRequest {
	w.t.Helper()
	return w.requestFor(name, issuer, newCSR(w.t, x509.CertificateRequest{DNSNames: []string{name + ".example.com"}}), edits...)
}

func (w *world) requestFor(name, issuer string, csr []byte, edits ...func(*cmv1.CertificateRequest)) *cmv1.CertificateRequest {
	w.t.Helper()
	cr := &cmv1.CertificateRequest{ObjectMeta: w.meta(name)}
	cr.Spec = cmv1.CertificateRequestSpec{Request: csr, IssuerRef: cmmeta.IssuerReference{Name: issuer, Kind: cmv1.IssuerKind, Group: "cert-manager.io"}}
	for _, edit := range edits {
		edit(cr)
	}
	w.create(cr)
	return cr
}

// state is what a CertificateRequest's status says: reason and message.
func (w *world) state(cr *cmv1.CertificateRequest) string {
	w.t.Helper()
	w.get(cr)
	for _, c := range cr.Status.Conditions {
		if c.Type == cmv1.CertificateRequestConditionReady {
			return c.Reason + " " + c.Message
		}
	}
	return ""
}

// becomes waits until the state of a request begins with a text, and returns it.
func (w *world) becomes(cr *cmv1.CertificateRequest, text string) (state string) {
	w.t.Helper()
	found := false
	defer func() {
		if !found {
			w.t.Logf("the request %s is %q", cr.Name, state)
		}
	}()
	eventually(w.t, "the request "+cr.Name+" is "+text, func() bool {
		state = w.state(cr)
		found = strings.HasPrefix(state, text)
		return found
	})
	return state
}

// issued waits for the certificate of a request.
func (w *world) issued(cr *cmv1.CertificateRequest) *x509.Certificate {
	w.t.Helper()
	state := ""
	eventually(w.t, "the request "+cr.Name+" is answered", func() bool {
		state = w.state(cr)
		return strings.HasPrefix(state, "Issued ") || strings.HasPrefix(state, "Failed ")
	})
	if !strings.HasPrefix(state, "Issued ") {
		w.t.Fatalf("the request %s is %q", cr.Name, state)
	}
	return parse(w.t, string(cr.Status.Certificate))
}

// certificate creates a Certificate and waits until it is ready. It returns the
// Secret.
func (w *world) certificate(name, issuer string, edits ...func(*cmv1.CertificateSpec)) *corev1.Secret {
	w.t.Helper()
	cert := &cmv1.Certificate{ObjectMeta: w.meta(name)}
	cert.Spec = cmv1.CertificateSpec{
		SecretName: name + "-tls", DNSNames: []string{name + ".example.com"}, IssuerRef: cmmeta.IssuerReference{Name: issuer},
	}
	for _, edit := range edits {
		edit(&cert.Spec)
	}
	w.create(cert)
	w.certificateIs(cert, cmv1.CertificateConditionReady)
	secret := &corev1.Secret{ObjectMeta: w.meta(cert.Spec.SecretName)}
	w.get(secret)
	return secret
}

// certificateIs waits until a Certificate has a condition, and returns its
// message.
func (w *world) certificateIs(cert *cmv1.Certificate, kind cmv1.CertificateConditionType) (message string) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("the certificate %s is %s", cert.Name, kind), func() bool {
		w.get(cert)
		for _, c := range cert.Status.Conditions {
			if c.Type == kind && c.Status == cmmeta.ConditionTrue {
				message = c.Message
				return true
			}
		}
		return false
	})
	return message
}

// event waits for an Event about an object, and returns its note.
func (w *world) event(about client.Object, reason string) (note string) {
	w.t.Helper()
	eventually(w.t, "there is an Event "+reason+" about "+about.GetName(), func() bool {
		for _, e := range w.events(about) {
			if e.Reason == reason {
				note = e.Note
				return true
			}
		}
		return false
	})
	return note
}

// events returns the Events about an object.
func (w *world) events(about client.Object) []eventsv1.Event {
	w.t.Helper()
	list, err := apitest.Client(w.t, w.Admin(w.t)).EventsV1().Events("").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	var some []eventsv1.Event
	for _, e := range list.Items {
		if e.Regarding.UID == about.GetUID() {
			some = append(some, e)
		}
	}
	return some
}

// newCSR creates a request with a new key.
func newCSR(t *testing.T, template x509.CertificateRequest) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, apitest.NewKey(t))
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// verify checks a certificate with the intermediates that come with it.
func verify(t *testing.T, chain []byte, roots ...*x509.Certificate) []*x509.Certificate {
	t.Helper()
	certs, err := pki.ParseCertificates(chain)
	if err != nil {
		t.Fatal(err)
	}
	pool, between := x509.NewCertPool(), x509.NewCertPool()
	for _, root := range roots {
		pool.AddCert(root)
	}
	for _, cert := range certs[1:] {
		between.AddCert(cert)
	}
	if _, err := certs[0].Verify(x509.VerifyOptions{Roots: pool, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		t.Errorf("the certificate of %v: %v", certs[0].DNSNames, err)
	}
	return certs
}
