package interop

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const revocationsAPI = "/api/v1/namespaces/certplane-revocation/"

// A kube-apiserver with the printed files refuses the certificates that Revocations name, in
// both of their forms, and nothing else. Without the webhook it goes on as before.
func TestRevocationWebhookInCluster(t *testing.T) {
	dir := shortTempDir(t)
	authorization := filepath.Join(dir, "certplane-authorization.yaml")
	write(t, authorization, `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AuthorizationConfiguration","authorizers":[{"type":"Node","name":"node"},{"type":"RBAC","name":"rbac"}]}`)
	servers := startServers(t, "--authorization-config="+authorization)
	c := &cluster{apiServer: servers.peer, program: certplane(t), dir: servers.dir}
	pki := filepath.Join(c.dir, "data/pki")
	c.admin = c.kubeconfig(t, "admin", map[string]any{"client-certificate": filepath.Join(pki, "admin.crt"), "client-key": filepath.Join(pki, "admin.key")})

	address, settings := freeAddress(t), filepath.Join(dir, "settings.yaml")
	write(t, settings, `{"apiVersion":"config.certplane.dev/v1alpha1","kind":"ControllersConfiguration","revocation":{"webhook":{"listen":"`+address+`"}}}`)
	c.install(t, "--revocation-webhook", "--config", settings)
	config := filepath.Join(dir, "config.yaml")
	write(t, config, c.text(t, "configmaps/certplane-controllers", "config.yaml"))
	token := strings.TrimSpace(c.certplane(t, "", "kubectl", "--kubeconfig", c.admin, "-n", "certplane-revocation", "create", "token", "certplane-controllers"))
	health := freeAddress(t)
	webhook := run(t, c.dir, c.program, "controllers", "--config", config, "--kubeconfig", c.kubeconfig(t, "revocation", map[string]any{"token": token}),
		"--health-probe-bind-address", health, "--metrics-bind-address", "0")
	eventually(t, "the webhook is ready", func() bool { return answers(health, "/readyz") })

	ca, err := base64.StdEncoding.DecodeString(c.text(t, "secrets/certplane-revocation-webhook", "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "certplane-revocation-ca.crt"), string(ca))
	for _, name := range []string{"certplane-revocation.kubeconfig", "certplane-authorization.yaml"} { // kube-apiserver follows the second
		write(t, filepath.Join(dir, name), strings.ReplaceAll(c.text(t, "configmaps/certplane-revocation-kube-apiserver", name), "/etc/kubernetes/", dir+"/"))
	}

	alice, bob := newUser(t, pki, "alice"), newUser(t, pki, "bob")
	for _, user := range []string{"alice", "bob"} {
		c.bind(t, "system:aggregate-to-view", user) // nothing fills the role view here
	}
	eventually(t, "alice is allowed", func() bool { return c.presenting(alice, alice.leaf).pods(t).Code == http.StatusOK })
	c.revoke(t, "laptop", alice.leaf)
	const reason = "the client certificate was revoked on "
	refused := func(der []byte) bool {
		got := c.presenting(alice, der).pods(t)
		text, _ := json.Marshal(got.Body)
		return got.Code == http.StatusForbidden && strings.Contains(string(text), reason)
	}
	eventually(t, "alice is refused", func() bool { return refused(alice.leaf) })
	if !refused(twin(t, alice.leaf)) {
		t.Error("the other form of the certificate is accepted")
	}
	if got := c.presenting(bob, bob.leaf).pods(t); got.Code != http.StatusOK {
		t.Errorf("bob: %+v", got)
	}
	begin := time.Now()
	c.revoke(t, "other", bob.leaf)
	eventually(t, "bob is refused", func() bool { return c.presenting(bob, bob.leaf).pods(t).Code == http.StatusForbidden })
	t.Logf("bob was refused after %v", time.Since(begin))

	// The group system:masters is allowed before any authorizer is asked.
	admin, err := tls.LoadX509KeyPair(filepath.Join(pki, "admin.crt"), filepath.Join(pki, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	c.revoke(t, "admin", admin.Certificate[0])
	if got := c.pods(t); got.Code != http.StatusOK {
		t.Errorf("system:masters: %+v", got)
	}

	// Nothing is asked about users of tokens.
	const asked = "apiserver_authorization_webhook_evaluations_total"
	before := c.sum(t, asked)
	if before == 0 {
		t.Error("kube-apiserver counts no questions")
	}
	for range 5 {
		if got := c.do(t, call{method: http.MethodGet, path: revocationsAPI + "secrets", header: http.Header{"Authorization": {"Bearer " + token}}}); got.Code == http.StatusUnauthorized {
			t.Errorf("the token: %+v", got)
		}
	}
	if after := c.sum(t, asked); after != before {
		t.Errorf("%v questions about users of tokens", after-before)
	}

	if err := webhook.stop(); err != nil {
		t.Errorf("the webhook ended with %v", err)
	}
	if got := c.presenting(alice, alice.leaf).pods(t); got.Code != http.StatusOK {
		t.Errorf("while the webhook is away: %+v", got)
	}
	if open := c.sum(t, "apiserver_authorization_webhook_evaluations_fail_open_total"); open == 0 {
		t.Error("kube-apiserver does not count that it went on without an answer")
	}
	printed, err := os.ReadFile(authorization)
	if err != nil {
		t.Fatal(err)
	}
	write(t, authorization, strings.ReplaceAll(string(printed), "failurePolicy: NoOpinion", "failurePolicy: Deny"))
	carol := newUser(t, pki, "carol")
	c.bind(t, "system:aggregate-to-view", "carol")
	eventually(t, "nobody with a certificate is allowed without an answer", func() bool {
		return c.presenting(carol, carol.leaf).pods(t).Code == http.StatusInternalServerError // so kube-apiserver denies
	})
}

// sum returns the sum of a metric with all its labels.
func (s *apiServer) sum(t *testing.T, metric string) (sum float64) {
	t.Helper()
	text, _ := s.do(t, call{method: http.MethodGet, path: "/metrics"}).Body.(string)
	for line := range strings.Lines(text) {
		labels, value, _ := strings.Cut(line, "} ")
		if !strings.HasPrefix(labels, metric+"{") {
			continue
		}
		one, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += one
	}
	return sum
}

// text returns a value of an object's data.
func (c *cluster) text(t *testing.T, object, key string) string {
	t.Helper()
	var text string
	eventually(t, object+" is there", func() bool {
		got := c.do(t, call{method: http.MethodGet, path: revocationsAPI + object})
		if got.Code != http.StatusOK {
			return false
		}
		data, _ := got.object(t)["data"].(map[string]any)
		text, _ = data[key].(string)
		return text != ""
	})
	return text
}

func (c *cluster) revoke(t *testing.T, name string, der []byte) {
	t.Helper()
	created := c.do(t, call{method: http.MethodPost, path: "/apis/certplane.dev/v1alpha1/revocations", body: map[string]any{
		"apiVersion": "certplane.dev/v1alpha1", "kind": "Revocation", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"reason": "KeyCompromise", "certificates": []any{
			map[string]any{"pem": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))},
		}},
	}})
	if created.Code != http.StatusCreated {
		t.Fatalf("revoking: %+v", created)
	}
}

// certificateUser is a user with a client certificate.
type certificateUser struct {
	leaf  []byte
	above [][]byte
	key   *ecdsa.PrivateKey
}

func newUser(t *testing.T, pki, name string) certificateUser {
	t.Helper()
	ca, err := tls.LoadX509KeyPair(filepath.Join(pki, "client-ca.crt"), filepath.Join(pki, "client-ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca.Leaf, key.Public(), ca.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return certificateUser{leaf, ca.Certificate, key}
}

// presenting returns the server for a user who presents a form of the certificate.
func (c *cluster) presenting(u certificateUser, leaf []byte) *apiServer {
	certificate := tls.Certificate{Certificate: append([][]byte{leaf}, u.above...), PrivateKey: u.key}
	return &apiServer{url: c.url, client: &http.Client{Timeout: timeout, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}}
}

func (s *apiServer) pods(t *testing.T) answer {
	t.Helper()
	return s.do(t, call{method: http.MethodGet, path: "/api/v1/namespaces/default/pods"})
}

// twin returns a certificate with the other form of its ECDSA signature, (r, n-s).
func twin(t *testing.T, der []byte) []byte {
	t.Helper()
	var cert struct {
		Content, Algorithm asn1.RawValue
		Signature          asn1.BitString
	}
	if _, err := asn1.Unmarshal(der, &cert); err != nil {
		t.Fatal(err)
	}
	var signature struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(cert.Signature.Bytes, &signature); err != nil {
		t.Fatal(err)
	}
	signature.S.Sub(elliptic.P256().Params().N, signature.S)
	other, err := asn1.Marshal(signature)
	if err != nil {
		t.Fatal(err)
	}
	cert.Signature = asn1.BitString{Bytes: other, BitLength: 8 * len(other)}
	made, err := asn1.Marshal(cert)
	if err != nil {
		t.Fatal(err)
	}
	return made
}
