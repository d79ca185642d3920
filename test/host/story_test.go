package host

import (
	"context"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	testingclock "k8s.io/utils/clock/testing"

	certplanev1alpha1 "github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/agent"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/client/cli/token"
)

const nodeName = "edge-1"

// Two programs on a host connect to each other all the time, while their certificates are
// refreshed, the signer's CA is replaced, the server is killed and the agent is restarted.
// No connection fails.
func TestNotOneConnectionFails(t *testing.T) {
	s := newStory(t)
	s.begin()

	s.act("certificates are refreshed")
	for range 3 {
		s.refresh()
	}

	s.act("the signer's CA is replaced")
	before := s.server.leaf().AuthorityKeyId
	s.annotateSigner("certplane.dev/rotate-ca", "1")
	s.eventually("both roots are trusted", func() bool { return s.server.roots() == 2 && s.client.roots() == 2 })
	s.takeOver()
	s.eventually("the new CA signs for both", func() bool {
		return string(s.server.leaf().AuthorityKeyId) != string(before) && string(s.client.leaf().AuthorityKeyId) != string(before)
	})

	s.act("the server is killed for a while")
	s.plane.kill()
	atKill := s.leaves()
	s.clock.Step(24 * time.Hour) // everything is due
	s.eventually("the agent tells its trouble", func() bool {
		data, err := os.ReadFile(s.cfg.StatusFile())
		return err == nil && strings.Contains(string(data), "connection refused")
	})
	s.busy(200)
	if s.leaves() != atKill {
		t.Error("certificates have changed without a server")
	}

	s.act("the agent is restarted without a server")
	s.stopAgent()
	s.startAgent()
	s.busy(200)

	s.act("the server is back")
	s.plane.start()
	s.eventually("both certificates are refreshed", func() bool { return s.refreshed(atKill) })

	s.act("the agent is restarted")
	s.passing(0, "no request is open", func() bool { _, open := s.requests(); return open == 0 })
	s.busy(50)
	requests, _ := s.requests()
	present := s.leaves()
	s.stopAgent()
	s.clock = testingclock.NewFakeClock(time.Now()) // by which no certificate is due
	s.startAgent()
	s.busy(200)
	if now, _ := s.requests(); s.leaves() != present || now != requests {
		t.Error("a restart has asked for certificates that are there")
	}
	if err := s.traffic.failures(); err != nil {
		t.Errorf("connections failed: %v", err)
	}
	t.Logf("%d connections", s.traffic.good.Load())
}

// story is a host with two programs.
type story struct {
	t              *testing.T
	plane          *controlPlane
	admin          kubernetes.Interface
	signers        dynamic.ResourceInterface
	cfg            agent.Config
	clock          *testingclock.FakeClock
	server, client program
	traffic        *traffic
	stopAgent      func()
}

// pair is the certificates of both programs.
type pair struct{ server, client string }

func newStory(t *testing.T) *story {
	t.Helper()
	dir := t.TempDir()
	cfg := agent.DefaultConfig()
	cfg.NodeName, cfg.DataDir, cfg.ManifestsDir = nodeName, filepath.Join(dir, "data"), filepath.Join(dir, "manifests")
	cfg.BootstrapKubeconfig, cfg.Metrics.BindAddress = filepath.Join(dir, "bootstrap.kubeconfig"), "0"
	cfg, err := cfg.Complete(os.Hostname)
	if err != nil {
		t.Fatal(err)
	}
	s := &story{t: t, plane: newControlPlane(t), cfg: cfg, clock: testingclock.NewFakeClock(time.Now()), stopAgent: func() {}}
	volume := func(pod string) program { return program{filepath.Join(cfg.VolumesDir, "default", pod, "tls")} }
	s.server, s.client = volume("server"), volume("client")
	s.traffic = &traffic{server: s.server, client: s.client}
	return s
}

// begin starts everything and waits for traffic.
func (s *story) begin() {
	s.t.Helper()
	s.plane.start()
	config, err := clientcmd.BuildConfigFromFlags("", s.plane.kubeconfig())
	if err != nil {
		s.t.Fatal(err)
	}
	s.admin = apitest.Client(s.t, config)
	s.makeSigner(config)
	s.makeToken(config)
	for _, account := range []string{"server", "client"} {
		s.makeAccount(account)
		s.makeManifest(account)
	}
	s.startAgent()
	s.eventually("both programs have their files", func() bool {
		_, errServer := s.server.GetX509BundleForTrustDomain(trustDomain)
		_, errClient := s.client.GetX509BundleForTrustDomain(trustDomain)
		return errServer == nil && errClient == nil && s.server.leaf().SerialNumber != nil && s.client.leaf().SerialNumber != nil
	})
	s.traffic.begin(s.t)
	s.busy(100)
	if err := s.traffic.connect(s.server); err == nil {
		s.t.Error("the server takes its own certificate for the client's: nothing is verified")
	}
}

func (s *story) makeSigner(config *rest.Config) {
	s.t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		s.t.Fatal(err)
	}
	s.signers = client.Resource(certplanev1alpha1.GroupVersion.WithResource("signers"))
	signer := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": certplanev1alpha1.GroupVersion.String(), "kind": "Signer",
		"metadata": map[string]any{"name": "spiffe"},
		"spec": map[string]any{
			"signerName": "example.com/spiffe",
			"requests":   []any{"PodCertificateRequest"},
			"ca":         map[string]any{"generated": map[string]any{}},
			"profile": map[string]any{
				"names":  map[string]any{"uris": `["spiffe://example.org/ns/" + pod.metadata.namespace + "/sa/" + pod.spec.serviceAccountName]`},
				"usages": []any{"digital signature", "client auth", "server auth"},
			},
		},
	}}
	if _, err := s.signers.Create(s.t.Context(), signer, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) annotateSigner(key, value string) {
	s.t.Helper()
	patch := `{"metadata": {"annotations": {"` + key + `": "` + value + `"}}}`
	if _, err := s.signers.Patch(s.t.Context(), "spiffe", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// takeOver makes the signer's next CA sign at once instead of in ten minutes.
func (s *story) takeOver() {
	s.t.Helper()
	signer, err := s.signers.Get(s.t.Context(), "spiffe", metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	fingerprint, _, _ := unstructured.NestedString(signer.Object, "status", "nextCA", "fingerprint")
	s.annotateSigner("certplane.dev/next-ca-distributed", fingerprint)
}

func (s *story) makeToken(config *rest.Config) {
	s.t.Helper()
	wish := token.Options{TTL: time.Hour}
	made, err := token.Create(s.t.Context(), s.admin.CoreV1().Secrets("kube-system"), wish, time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	content, err := token.Kubeconfig(made, wish, config, time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(s.cfg.BootstrapKubeconfig, content, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// makeAccount makes a service account that the host may have.
func (s *story) makeAccount(name string) {
	s.t.Helper()
	meta := metav1.ObjectMeta{Name: name}
	if _, err := s.admin.CoreV1().ServiceAccounts("default").Create(s.t.Context(), &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		Verbs: []string{"host"}, APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: []string{name},
	}}}
	if _, err := s.admin.RbacV1().Roles("default").Create(s.t.Context(), role, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "User", Name: "system:node:" + nodeName}}}
	if _, err := s.admin.RbacV1().RoleBindings("default").Create(s.t.Context(), binding, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) makeManifest(account string) {
	s.t.Helper()
	if err := os.MkdirAll(s.cfg.ManifestsDir, 0o755); err != nil {
		s.t.Fatal(err)
	}
	content := `apiVersion: v1
kind: Pod
metadata: {name: ` + account + `}
spec:
  serviceAccountName: ` + account + `
  volumes:
  - name: tls
    projected:
      sources:
      - podCertificate: {signerName: example.com/spiffe, keyType: ECDSAP256, credentialBundlePath: bundle.pem}
      - clusterTrustBundle: {signerName: example.com/spiffe, labelSelector: {}, path: ca.pem}
`
	if err := os.WriteFile(filepath.Join(s.cfg.ManifestsDir, account+".yaml"), []byte(content), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) startAgent() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx, s.cfg, s.clock, nil, func() {}) }()
	stopped := false
	s.stopAgent = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("the agent ended: %v", err)
		}
	}
	s.t.Cleanup(s.stopAgent)
}

// act logs the step that begins, in case the story stops there.
func (s *story) act(what string) {
	s.t.Logf("%d connections: %s", s.traffic.good.Load(), what)
}

// eventually waits while the agent's clock advances by some seconds at each
// look.
func (s *story) eventually(what string, holds func() bool) {
	s.t.Helper()
	s.passing(5*time.Second, what, holds)
}

// passing is eventually with another speed of time; 0 stops it.
func (s *story) passing(step time.Duration, what string, holds func() bool) {
	s.t.Helper()
	apitest.Eventually(s.t, what, func() bool {
		if holds() {
			return true
		}
		s.clock.Step(step)
		return false
	})
}

// busy waits for a number of connections.
func (s *story) busy(connections int64) {
	s.t.Helper()
	until := s.traffic.good.Load() + connections
	s.passing(0, "the programs talk", func() bool {
		return s.traffic.good.Load() >= until || s.traffic.failures() != nil
	})
}

// refresh makes both certificates due and waits for new ones.
func (s *story) refresh() {
	s.t.Helper()
	before := s.leaves()
	s.clock.Step(24 * time.Hour)
	s.eventually("both certificates are refreshed", func() bool { return s.refreshed(before) })
	s.busy(100)
}

func (s *story) leaves() pair { return pair{serial(s.server.leaf()), serial(s.client.leaf())} }

func (s *story) refreshed(before pair) bool {
	now := s.leaves()
	return now.server != before.server && now.client != before.client
}

func serial(cert *x509.Certificate) string {
	if cert.SerialNumber == nil {
		return ""
	}
	return cert.SerialNumber.String()
}

// requests returns how many requests there are, and how many have no answer.
func (s *story) requests() (all, open int) {
	s.t.Helper()
	list, err := s.admin.CertificatesV1().PodCertificateRequests("default").List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, request := range list.Items {
		if len(request.Status.Conditions) == 0 {
			open++
		}
	}
	return len(list.Items), open
}
