package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/examples/external-issuer/api/v1alpha1"
)

// patience is how long anything that is waited for may take on a busy machine.
const patience = 3 * time.Minute

// programs are built once for all tests, at the first need.
var programs = sync.OnceValues(func() (dir string, err error) {
	dir, err = os.MkdirTemp("", "external-issuer")
	if err != nil {
		return "", err
	}
	if out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "external-issuer"), ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the issuer: %w\n%s", err, out)
	}
	if os.Getenv("CERTPLANE") != "" {
		return dir, nil
	}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "certplane"), "./cmd/certplane")
	build.Dir = filepath.Join("..", "..")
	if _, err := os.Stat(filepath.Join(build.Dir, "cmd", "certplane")); err != nil {
		return "", fmt.Errorf("there is no certplane to build here: name a program in $CERTPLANE: %w", err)
	}
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building certplane: %w\n%s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	if dir, err := programs(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

func program(t *testing.T, name string) string {
	t.Helper()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	if given := os.Getenv("CERTPLANE"); given != "" && name == "certplane" {
		return given
	}
	return filepath.Join(dir, name)
}

// world is a server with the definitions and rights of the issuer.
type world struct {
	kubeconfig string // the administrator's
	admin      client.Client
}

// start starts a server with more lines in its configuration.
func start(t *testing.T, lines ...string) world {
	t.Helper()
	dir := t.TempDir()
	data, config := filepath.Join(dir, "data"), filepath.Join(dir, "server.yaml")
	lines = append([]string{"apiVersion: config.certplane.dev/v1alpha1", "kind: ServerConfiguration"}, lines...)
	if err := os.WriteFile(config, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	w := world{kubeconfig: filepath.Join(data, "admin.kubeconfig")}
	background(t, "certplane is ready", program(t, "certplane"), "serve", "--data-dir", data, "--listen", "127.0.0.1:0", "--config", config)
	w.admin = w.connect(t)
	w.kubectl(t, "apply", "-f", "deploy/crds", "-f", "deploy/rbac.yaml")
	w.kubectl(t, "wait", "--for=condition=Established", "--timeout=1m",
		"crd/sampleissuers.sample-issuer.example.com", "crd/sampleclusterissuers.sample-issuer.example.com")
	return w
}

func (w world) connect(t *testing.T) client.Client {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", w.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, cmv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(kinds); err != nil {
			t.Fatal(err)
		}
	}
	admin, err := client.New(cfg, client.Options{Scheme: kinds})
	if err != nil {
		t.Fatal(err)
	}
	return admin
}

func (w world) kubectl(t *testing.T, arguments ...string) string {
	t.Helper()
	return w.certplane(t, append([]string{"kubectl", "--kubeconfig", w.kubeconfig}, arguments...)...)
}

func (w world) certplane(t *testing.T, arguments ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program(t, "certplane"), arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("certplane %s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
	return string(out)
}

// issue runs the issuer as its own service account, with its rights and no
// more. It returns what stops it.
func (w world) issue(t *testing.T, arguments ...string) (stop func()) {
	t.Helper()
	return background(t, "", program(t, "external-issuer"), append([]string{"--kubeconfig", w.account(t)}, arguments...)...)
}

// account makes a kubeconfig file for the issuer's service account.
func (w world) account(t *testing.T) string {
	t.Helper()
	token := &authenticationv1.TokenRequest{}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "sample-issuer", Name: "sample-issuer"}}
	if err := w.admin.SubResource("token").Create(t.Context(), account, token); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(w.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// background runs a program until the test ends or stop is called, and waits
// until the program prints that it is ready.
func background(t *testing.T, ready, program string, arguments ...string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, arguments...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(program), out)
		}
	})
	t.Cleanup(stop)
	eventually(t, filepath.Base(program)+" is ready", func() bool {
		select {
		case <-ended:
			t.Fatalf("%s has ended:\n%s", program, out)
		default:
		}
		return strings.Contains(out.String(), ready)
	})
	return stop
}

// output collects the output of a program while it runs.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer // mu guards it
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	condition := func(context.Context) (bool, error) { return holds(), nil }
	if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, patience, true, condition); err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

func (w world) create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := w.admin.Create(t.Context(), object); err != nil {
			t.Fatalf("creating %T %s: %v", object, object.GetName(), err)
		}
	}
}

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// newCA is a root in a Secret.
func newCA(t *testing.T, namespace, name string) (*corev1.Secret, *x509.Certificate) {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Minute),
		NotAfter: time.Now().Add(365 * 24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	root, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{
			corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
			corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
		},
	}, root
}

func csrOf(t *testing.T, dnsName string, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{dnsName}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// request asks the SampleIssuer "sample" for a certificate; it is not sent yet.
func request(t *testing.T, name, dnsName string, key crypto.Signer) *cmv1.CertificateRequest {
	t.Helper()
	return &cmv1.CertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: cmv1.CertificateRequestSpec{
			IssuerRef: cmmeta.IssuerReference{Group: v1alpha1.GroupVersion.Group, Kind: "SampleIssuer", Name: "sample"},
			Request:   csrOf(t, dnsName, key),
		},
	}
}

// becomes waits until a request has a Ready condition with this reason.
func (w world) becomes(t *testing.T, name, reason string) *cmv1.CertificateRequest {
	t.Helper()
	cr := &cmv1.CertificateRequest{}
	eventually(t, name+" is "+reason, func() bool {
		if err := w.admin.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, cr); err != nil {
			t.Fatal(err)
		}
		ready := readyOf(cr)
		return ready != nil && ready.Reason == reason
	})
	return cr
}

func readyOf(cr *cmv1.CertificateRequest) *cmv1.CertificateRequestCondition {
	for i := range cr.Status.Conditions {
		if cr.Status.Conditions[i].Type == cmv1.CertificateRequestConditionReady {
			return &cr.Status.Conditions[i]
		}
	}
	return nil
}

// verify checks that a chain begins with a certificate for key, below root.
func verify(t *testing.T, chainPEM []byte, root *x509.Certificate, key crypto.PublicKey) {
	t.Helper()
	block, _ := pem.Decode(chainPEM)
	if block == nil {
		t.Fatalf("no certificate in %q", chainPEM)
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(root)
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		t.Error(err)
	}
	if key != nil && !leaf.PublicKey.(*ecdsa.PublicKey).Equal(key) {
		t.Error("the certificate has another key")
	}
}
