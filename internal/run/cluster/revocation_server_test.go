package cluster_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/cluster"
	"github.com/certplane/certplane/internal/run/manifests"
	"github.com/certplane/certplane/internal/run/server"
)

const revocationNamespace = "certplane-revocation"

// revocationProcess installs what is printed for the webhook that refuses revoked
// certificates, and returns the configuration of its pods.
func revocationProcess(t *testing.T, w world) cluster.Config {
	t.Helper()
	var text bytes.Buffer
	if err := manifests.WriteRevocation(&text, manifests.Config{Image: "test", Controllers: cluster.DefaultConfig()}); err != nil {
		t.Fatal(err)
	}
	w.apply(t, &text)
	var files *corev1.ConfigMap
	apitest.Eventually(t, "the configuration is there", func() bool {
		var err error
		files, err = w.admin.CoreV1().ConfigMaps(revocationNamespace).Get(t.Context(), "certplane-controllers", metav1.GetOptions{})
		return err == nil
	})
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(files.Data["config.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := cluster.LoadConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	token, err := w.admin.CoreV1().ServiceAccounts(revocationNamespace).
		CreateToken(t.Context(), "certplane-controllers", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cfg.ClientConnection.Kubeconfig = w.writeKubeconfig(t, clientcmdapi.AuthInfo{Token: token.Status.Token})
	return cfg
}

// elsewhere returns the configuration of another host.
func elsewhere(t *testing.T, cfg cluster.Config) cluster.Config {
	t.Helper()
	cfg.Metrics.BindAddress, cfg.Metrics.Anonymous = apitest.FreeAddress(t), true
	cfg.Health.BindAddress, cfg.Revocation.Webhook.Listen = apitest.FreeAddress(t), apitest.FreeAddress(t)
	return cfg
}

// The printed webhook refuses the certificates of Revocations in every process, with the
// rights that it is given, and knows them again when it starts.
func TestRevocationWebhook(t *testing.T) {
	s := apitest.Start(t, func(c *server.Config) { c.Controllers = []string{} })
	w := world{Server: s, admin: apitest.Client(t, s.Admin(t))}
	cfg := revocationProcess(t, w)
	first, second := elsewhere(t, cfg), elsewhere(t, cfg)
	run(t, first)
	run(t, second)

	cert, err := pki.ParseFirst(s.Login(t, "alice").CertData)
	if err != nil {
		t.Fatal(err)
	}
	ask := w.asks(t, cert)
	for _, at := range []cluster.Config{first, second} {
		if got := ask(t, at); got.Allowed || got.Denied {
			t.Errorf("before: %+v", got)
		}
	}
	revocation := &v1alpha1.Revocation{ObjectMeta: metav1.ObjectMeta{Name: "laptop"}, Spec: v1alpha1.RevocationSpec{
		Certificates: []v1alpha1.RevokedCertificate{{PEM: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}))}}, Reason: "KeyCompromise",
	}}
	if err := connect(t, w.Admin(t)).Create(t.Context(), revocation, client.FieldOwner("test")); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	third := elsewhere(t, cfg)
	refuses := func(at cluster.Config) {
		t.Helper()
		reason := "the client certificate was revoked on " + revocation.CreationTimestamp.UTC().Format(time.RFC3339) + ": KeyCompromise"
		apitest.Eventually(t, "the certificate is refused", func() bool {
			got := ask(t, at)
			return got.Denied && !got.Allowed && got.Reason == reason
		})
	}
	refuses(first)
	t.Logf("the certificate was refused after %v", time.Since(begin))
	refuses(second)
	run(t, third)
	if got := ask(t, third); !got.Denied {
		t.Errorf("right after the start: %+v", got)
	}
	for _, series := range []string{`answers_total\{answer="revoked"\} [1-9]`, `duration_seconds_count [1-9]`} {
		if text := scrape(t, first); !regexp.MustCompile("\ncertplane_revocation_webhook_" + series).Match(text) {
			t.Errorf("no %s", series)
		}
	}
}

// asks returns how a kube-apiserver asks a process about a certificate.
func (w world) asks(t *testing.T, cert *x509.Certificate) func(*testing.T, cluster.Config) authorizationv1.SubjectAccessReviewStatus {
	t.Helper()
	secret, err := w.admin.CoreV1().Secrets(revocationNamespace).Get(t.Context(), "certplane-revocation-webhook", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(secret.Data["ca.crt"])
	if ca, err := pki.ParseFirst(secret.Data["ca.crt"]); err != nil || time.Until(ca.NotAfter) < 9*365*24*time.Hour {
		t.Errorf("the CA is %+v, %v", ca, err)
	}
	sum := sha256.Sum256(cert.Raw)
	review := &authorizationv1.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"},
		Spec: authorizationv1.SubjectAccessReviewSpec{User: "alice", Extra: map[string]authorizationv1.ExtraValue{
			"authentication.kubernetes.io/credential-id": {"X509SHA256=" + hex.EncodeToString(sum[:])},
		}},
	}
	body, err := json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	api := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	return func(t *testing.T, at cluster.Config) authorizationv1.SubjectAccessReviewStatus {
		t.Helper()
		response, err := api.Post("https://"+at.Revocation.Webhook.Listen+"/revocation/v1/authorize", "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var answer authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
			t.Fatalf("%s: %v", response.Status, err)
		}
		return answer.Status
	}
}

// While the API is away, a process that starts does not listen: kube-apiserver decides by its
// failurePolicy.
func TestRevocationWebhookWaitsForTheAPI(t *testing.T) {
	s := apitest.Start(t, func(c *server.Config) { c.Controllers, c.Serving.Listen = []string{}, apitest.FreeAddress(t) })
	w := world{Server: s, admin: apitest.Client(t, s.Admin(t))}
	cfg := elsewhere(t, revocationProcess(t, w))
	s.Stop(t)
	p := starts(t, cfg)
	apitest.Eventually(t, "it lives", func() bool { status, _ := probe(cfg, "/healthz"); return status == http.StatusOK })
	if _, err := net.Dial("tcp", cfg.Revocation.Webhook.Listen); err == nil || ready(cfg) {
		t.Errorf("it listens without knowing what is revoked")
	}
	s.Restart(t)
	apitest.Eventually(t, "it listens", func() bool {
		select {
		case <-p.ended: // the API has just started, and lacks a definition: a kubelet starts the pod again
			p = starts(t, cfg)
		default:
		}
		c, err := net.Dial("tcp", cfg.Revocation.Webhook.Listen)
		if err == nil {
			c.Close()
		}
		return err == nil && ready(cfg)
	})
}
