package server_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

// A kube-apiserver that trusts the CA of this server can ask it about certificates: right
// after a Revocation, and right after a restart.
func TestRevocationWebhook(t *testing.T) {
	at := apitest.FreeAddress(t)
	s := apitest.Start(t, func(c *server.Config) { c.Controllers, c.Revocation.Webhook.Listen = []string{}, at })
	ca, err := os.ReadFile(filepath.Join(s.Config.DataDir, "pki/serving-ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	cert, err := pki.ParseFirst(s.Login(t, "alice").CertData)
	if err != nil {
		t.Fatal(err)
	}
	if got := askRevoked(t, at, ca, cert); got.Allowed || got.Denied {
		t.Errorf("before: %+v", got)
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	api, err := client.New(s.Admin(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	revocation := &v1alpha1.Revocation{ObjectMeta: metav1.ObjectMeta{Name: "laptop"}, Spec: v1alpha1.RevocationSpec{
		Certificates: []v1alpha1.RevokedCertificate{{PEM: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}))}}, Reason: "KeyCompromise",
	}}
	if err := api.Create(t.Context(), revocation); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"after the Revocation", "after a restart"} {
		if got := askRevoked(t, at, ca, cert); !got.Denied || got.Allowed || !strings.HasPrefix(got.Reason, "the client certificate was revoked on ") || !strings.HasSuffix(got.Reason, ": KeyCompromise") {
			t.Errorf("%s: %+v", when, got)
		}
		s.Restart(t)
	}
}

func askRevoked(t *testing.T, at string, ca []byte, cert *x509.Certificate) authorizationv1.SubjectAccessReviewStatus {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	sum := sha256.Sum256(cert.Raw)
	review := fmt.Sprintf(`{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{"user":"alice","extra":{"authentication.kubernetes.io/credential-id":["X509SHA256=%s"]}}}`, hex.EncodeToString(sum[:]))
	kube := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}}
	response, err := kube.Post("https://"+at+"/revocation/v1/authorize", "application/json", bytes.NewReader([]byte(review)))
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

// The configuration of the webhook is checked by its fields.
func TestRevocationWebhookIsChecked(t *testing.T) {
	for field, change := range map[string]func(*server.Config){
		"revocation.webhook.listen: \"9444\" is not HOST:PORT": func(c *server.Config) { c.Revocation.Webhook.Listen = "9444" },
		"revocation.webhook.clientCAFile: set ":                func(c *server.Config) { c.Revocation.Webhook.ClientCAFile = "ca.crt" },
	} {
		cfg := server.DefaultConfig()
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
