package agent_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/certplane/certplane/internal/agent"
	"github.com/certplane/certplane/internal/agent/status"
	"github.com/certplane/certplane/internal/apitest"
)

// common is the server of the tests that neither stop their server nor look at
// all of its objects.
var common apitest.Shared

func TestMain(m *testing.M) { apitest.Main(m, &common) }

// host is a host with an agent.
type host struct {
	t      *testing.T
	server *apitest.Server
	admin  kubernetes.Interface
	cfg    agent.Config
	// namespace is the namespace of the host's pods, node the host's name.
	namespace, node string
	clock           *testingclock.FakeClock
	// again stands for SIGHUP.
	again chan struct{}
	logs  logs
	stop  func()
}

// logs collects what an agent has logged.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// count returns how many times a text was logged.
func (l *logs) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// lines returns how many lines have all of the texts.
func (l *logs) lines(texts ...string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	count := 0
	for line := range strings.Lines(l.text.String()) {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			count++
		}
	}
	return count
}

// newHost returns a host with an empty folder of manifests, which may host the
// service accounts of a namespace of its own. Its agent does not run yet.
func newHost(t *testing.T, s *apitest.Server) *host {
	t.Helper()
	namespace := apitest.OwnNamespace(t, apitest.Client(t, s.Admin(t)))
	dir, node := t.TempDir(), "edge-of-"+namespace
	cfg := agent.DefaultConfig()
	cfg.NodeName, cfg.DataDir, cfg.ManifestsDir = node, filepath.Join(dir, "data"), filepath.Join(dir, "manifests")
	cfg.Kubeconfig, cfg.Metrics.BindAddress = filepath.Join(dir, "kubeconfig"), "0"
	cfg, err := cfg.Complete(os.Hostname)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(cfg.ManifestsDir, 0o755); err != nil {
		t.Fatal(err)
	}
	h := &host{
		t: t, server: s, cfg: cfg, namespace: namespace, node: node,
		clock: testingclock.NewFakeClock(time.Now()), again: make(chan struct{}), stop: func() {},
	}
	h.login()
	h.letHost("serviceaccounts")
	apitest.Eventually(t, "there is a service account", func() bool {
		_, err := h.admin.CoreV1().ServiceAccounts(namespace).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	return h
}

// login gives the host and the administrator the server's present address.
func (h *host) login() {
	h.t.Helper()
	h.admin = apitest.Client(h.t, h.server.Admin(h.t))
	writeKubeconfig(h.t, h.cfg.Kubeconfig, h.server.Login(h.t, "system:node:"+h.node, "system:nodes"))
}

func writeKubeconfig(t *testing.T, path string, config *rest.Config) {
	t.Helper()
	if err := rest.LoadTLSFiles(config); err != nil {
		t.Fatal(err)
	}
	const name = "test"
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, path)
	if err != nil {
		t.Fatal(err)
	}
}

// letHost grants the verb host on resources of the namespace.
func (h *host) letHost(resources ...string) {
	h.t.Helper()
	meta := metav1.ObjectMeta{Name: "host-" + strings.Join(resources, "-")}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{Verbs: []string{"host"}, APIGroups: []string{""}, Resources: resources}}}
	if _, err := h.admin.RbacV1().Roles(h.namespace).Create(h.t.Context(), role, metav1.CreateOptions{}); err != nil {
		h.t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: "User", Name: "system:node:" + h.node}}}
	if _, err := h.admin.RbacV1().RoleBindings(h.namespace).Create(h.t.Context(), binding, metav1.CreateOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

// run runs the agent until the test or h.stop ends it.
func (h *host) run() {
	h.t.Helper()
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&h.logs)))
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx, h.cfg, h.clock, h.again, func() {}) }()
	stopped := false
	h.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			h.t.Errorf("the agent ended: %v", err)
		}
	}
	h.t.Cleanup(h.stop)
}

// manifest writes a file into the folder of manifests.
func (h *host) manifest(name, content string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.cfg.ManifestsDir, name), []byte(content), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

// web writes the manifest of a pod "web" with a volume "tls" of sources.
func (h *host) web(sources ...string) {
	h.t.Helper()
	h.manifest("web.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: "+h.namespace+"}\nspec: {volumes: [{name: tls, projected: {sources: [{"+strings.Join(sources, "}, {")+"}]}}]}")
}

// path returns the path of a file in the volume "tls" of "web".
func (h *host) path(name string) string {
	return filepath.Join(h.cfg.VolumesDir, h.namespace, "web", "tls", name)
}

// file returns the content of a file of that volume, or "" if the file does not
// exist.
func (h *host) file(name string) string {
	data, err := os.ReadFile(h.path(name))
	if err != nil && !os.IsNotExist(err) {
		h.t.Fatal(err)
	}
	return string(data)
}

// eventually waits until the condition holds. A second of the agent's time
// passes with each check.
func (h *host) eventually(what string, holds func() bool) {
	h.t.Helper()
	h.passing(time.Second, what, holds)
}

// passing is eventually with another step of time; 0 stops the time.
func (h *host) passing(step time.Duration, what string, holds func() bool) {
	h.t.Helper()
	apitest.Eventually(h.t, what, func() bool {
		if holds() {
			return true
		}
		h.clock.Step(step)
		return false
	})
}

// source returns what the agent's status says of a source of that volume.
func (h *host) source(i int) status.Source {
	told, err := status.Read(h.cfg.StatusFile())
	if err != nil || len(told.Pods) == 0 || len(told.Pods[0].Volumes) == 0 {
		return status.Source{}
	}
	return told.Pods[0].Volumes[0].Sources[i]
}

// requests returns the server's requests without those named in besides.
func (h *host) requests(besides ...string) []certificatesv1.PodCertificateRequest {
	h.t.Helper()
	list, err := h.admin.CertificatesV1().PodCertificateRequests(h.namespace).List(h.t.Context(), metav1.ListOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	var found []certificatesv1.PodCertificateRequest
	for _, request := range list.Items {
		if !contains(besides, request.Name) {
			found = append(found, request)
		}
	}
	return found
}

func contains(all []string, one string) bool {
	for _, s := range all {
		if s == one {
			return true
		}
	}
	return false
}

// request waits for a request that is not among those named in besides.
func (h *host) request(besides ...string) *certificatesv1.PodCertificateRequest {
	h.t.Helper()
	var found *certificatesv1.PodCertificateRequest
	h.eventually("a request is there", func() bool {
		if all := h.requests(besides...); len(all) > 0 {
			found = &all[0]
		}
		return found != nil
	})
	return found
}

// pod waits for the Pod of "web" in the API.
func (h *host) pod() *corev1.Pod {
	h.t.Helper()
	var found *corev1.Pod
	h.eventually("the pod is registered", func() bool {
		pod, err := h.admin.CoreV1().Pods(h.namespace).Get(h.t.Context(), "web-"+h.node, metav1.GetOptions{})
		found = pod
		return err == nil
	})
	return found
}
