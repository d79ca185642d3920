package agent_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/agent"
	"github.com/certplane/certplane/internal/agent/hook"
	"github.com/certplane/certplane/internal/agent/status"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/client/cli/token"
)

// bootstrapped turns h into a host that has nothing but a bootstrap token.
func (h *host) bootstrapped() {
	h.t.Helper()
	wish := token.Options{TTL: time.Hour}
	made, err := token.Create(h.t.Context(), h.admin.CoreV1().Secrets("kube-system"), wish, time.Now())
	if err != nil {
		h.t.Fatal(err)
	}
	content, err := token.Kubeconfig(made, wish, h.server.Admin(h.t), time.Now())
	if err != nil {
		h.t.Fatal(err)
	}
	h.cfg.Kubeconfig, h.cfg.BootstrapKubeconfig = "", filepath.Join(h.t.TempDir(), "bootstrap.kubeconfig")
	if err := os.WriteFile(h.cfg.BootstrapKubeconfig, content, 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// once runs "agent --once" with real time.
func (h *host) once(timeout time.Duration) error {
	h.t.Helper()
	ctx, cancel := context.WithTimeoutCause(h.t.Context(), timeout, errors.New("too late"))
	defer cancel()
	return agent.Once(ctx, h.cfg, clock.RealClock{})
}

// A host with a bootstrap token gets its certificate, and no longer needs the
// token.
func TestBootstrap(t *testing.T) {
	h := newHost(t, apitest.Start(t))
	h.bootstrapped()
	h.web("serviceAccountToken: {path: token}")
	if err := h.once(time.Minute); err != nil {
		t.Fatal(err)
	}
	if h.file("token") == "" {
		t.Error("the file is not there")
	}
	if err := os.Remove(h.cfg.BootstrapKubeconfig); err != nil {
		t.Fatal(err)
	}
	if err := h.once(time.Minute); err != nil {
		t.Errorf("without the token: %v", err)
	}
	own, err := clientcmd.BuildConfigFromFlags("", filepath.Join(h.cfg.DataDir, "identity", "server.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	review, err := apitest.Client(t, own).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || review.Status.UserInfo.Username != "system:node:"+h.node {
		t.Errorf("the host is %v, %v", review, err)
	}
	if csrs, err := h.admin.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{}); err != nil || len(csrs.Items) != 1 {
		t.Errorf("%d requests for the host, %v; want one", len(csrs.Items), err)
	}
	err = filepath.WalkDir(h.cfg.DataDir, func(path string, entry os.DirEntry, err error) error {
		if info, statErr := entry.Info(); err == nil && statErr == nil && info.Mode().IsRegular() {
			if data, err := os.ReadFile(path); err == nil && strings.Contains(string(data), "PRIVATE KEY") && info.Mode().Perm() != 0o600 {
				t.Errorf("%s has a key, and mode %o", path, info.Mode().Perm())
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	h.cfg.NodeName = "edge-2"
	if err := h.once(time.Minute); err == nil || !strings.Contains(err.Error(), "is for system:node:"+h.node) {
		t.Errorf("under another name: %v", err)
	}
}

func TestNoIdentity(t *testing.T) {
	h := newHost(t, common.Start(t))
	h.cfg.Kubeconfig = ""
	if err := h.once(time.Minute); err == nil || !strings.Contains(err.Error(), "--bootstrap-kubeconfig") {
		t.Errorf("without anything: %v", err)
	}
	h.toldStart("this host has no identity yet")
	h.bootstrapped()
	for _, secret := range h.secrets() {
		if err := h.admin.CoreV1().Secrets("kube-system").Delete(t.Context(), secret, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	apitest.Eventually(t, "the token is not known any more", func() bool {
		err = h.once(2 * time.Second)
		return err != nil && strings.Contains(err.Error(), "the server does not know the token")
	})
	h.toldStart("the server does not know the token")
}

// toldStart checks that the status says why the agent could not start.
func (h *host) toldStart(want string) {
	h.t.Helper()
	if told, err := status.Read(h.cfg.StatusFile()); err != nil || !strings.Contains(told.Start, want) || told.Node != h.node {
		h.t.Errorf("the status of a start that failed: %+v, %v; want %q", told, err, want)
	}
}

// A first join without a server reports that, and not that a request has to be
// approved.
func TestJoinWithoutServer(t *testing.T) {
	h := newHost(t, common.Start(t))
	h.bootstrapped()
	config, err := clientcmd.LoadFromFile(h.cfg.BootstrapKubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	nobody := "https://" + apitest.FreeAddress(h.t)
	for _, cluster := range config.Clusters {
		cluster.Server = nobody
	}
	if err := clientcmd.WriteToFile(*config, h.cfg.BootstrapKubeconfig); err != nil {
		t.Fatal(err)
	}
	want := "waiting for the certificate of node " + h.node + ": server " + nobody + ": dial tcp " + nobody[len("https://"):] + ": connect: connection refused"
	if err := h.once(time.Second); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	h.toldStart(want)
	if told, err := status.Read(h.cfg.StatusFile()); err != nil || told.Server.URL != nobody || !strings.Contains(told.Server.Error, "connection refused") {
		t.Errorf("the server in the status: %+v, %v", told.Server, err)
	}
}

func (h *host) secrets() (names []string) {
	h.t.Helper()
	list, err := h.admin.CoreV1().Secrets("kube-system").List(h.t.Context(), metav1.ListOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, secret := range list.Items {
		if strings.HasPrefix(secret.Name, "bootstrap-token-") {
			names = append(names, secret.Name)
		}
	}
	return names
}

// "agent --once" reports what is missing, and that another agent is running.
func TestOnceFails(t *testing.T) {
	h := newHost(t, common.Start(t))
	h.web(certificate, "serviceAccountToken: {path: token}")
	apitest.Eventually(t, "only the certificate is missing for want of a signer", func() bool {
		err := h.once(3 * time.Second)
		return err != nil && strings.Contains(err.Error(), h.namespace+"/web: tls: podCertificate example.com/spiffe: not issued yet") && !strings.Contains(err.Error(), "serviceAccountToken")
	})
	h.manifest("bad.yaml", "{}")
	if err := h.once(time.Minute); err == nil || !strings.Contains(err.Error(), "bad.yaml: apiVersion") {
		t.Errorf("with a bad manifest: %v", err)
	}
	h.toldStart("bad.yaml: apiVersion")
	if err := os.Remove(filepath.Join(h.cfg.ManifestsDir, "bad.yaml")); err != nil {
		t.Fatal(err)
	}
	h.run()
	h.eventually("the agent runs", func() bool { runs, err := agent.Runs(h.cfg); return err == nil && runs })
	if err := h.once(time.Minute); err == nil || !strings.Contains(err.Error(), "another agent uses") {
		t.Errorf("beside another agent: %v", err)
	}
}

// A command runs after a refresh, and again until it succeeds. Other commands
// for the same volume run once, whether it succeeds or not. For the first files
// each has one attempt, which may fail.
func TestAfterRefresh(t *testing.T) {
	h := newHost(t, common.Start(t))
	ca := newSigner(t)
	done, broken, called := filepath.Join(t.TempDir(), "done"), filepath.Join(t.TempDir(), "broken"), filepath.Join(t.TempDir(), "called")
	if err := os.WriteFile(broken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	h.cfg.AfterRefresh = []hook.Action{
		{Pod: h.namespace + "/web", Program: hook.Program{Command: []string{"/bin/sh", "-c", `: >"$2"; test ! -e "$0" && cat "$CERTPLANE_DIR/chain.pem" >"$1"`, broken, done, called}}},
		{Pod: h.namespace + "/web", Program: hook.Program{Signal: "HUP", PIDFile: broken}},
		{Pod: h.namespace + "/web", Program: hook.Program{Command: []string{"/bin/sh", "-c", `echo ran >>"$0"`, other}}},
	}
	h.web(certificate)
	h.run()
	first := h.request()
	chain := ca.issue(h, first)
	h.eventually("the command has run for the first files", func() bool { _, err := os.Stat(called); return err == nil && h.file("chain.pem") == chain })
	h.eventually("all files are reported", func() bool { return h.source(0).State == "fresh" })
	if data, err := os.ReadFile(h.cfg.StatusFile()); err != nil || strings.Contains(string(data), "after the refresh") {
		t.Errorf("a program that does not run yet is a problem: %s, %v", data, err)
	}
	h.clock.Step(23*time.Hour + 36*time.Minute)
	second := h.request(first.Name)
	chain = ca.issue(h, second)
	h.eventually("the failure is told", func() bool {
		data, err := os.ReadFile(h.cfg.StatusFile())
		return err == nil && strings.Contains(string(data), "after the refresh: running /bin/sh: exit status 1") &&
			strings.Contains(string(data), "after the refresh: sending HUP: "+broken+" has no process number")
	})
	h.eventually("the others have run", func() bool { data, err := os.ReadFile(other); return err == nil && string(data) == "ran\nran\n" })
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	h.eventually("the command has run", func() bool {
		data, err := os.ReadFile(done)
		return err == nil && string(data) == chain
	})
	h.stop() // actions that have succeeded are remembered
	h.run()
	h.eventually("the signal has no file", func() bool {
		data, err := os.ReadFile(h.cfg.StatusFile())
		return err == nil && strings.Contains(string(data), "sending HUP: lstat "+broken) && !strings.Contains(string(data), "exit status 1")
	})
	if data, err := os.ReadFile(other); err != nil || string(data) != "ran\nran\n" {
		t.Errorf("the command that succeeds: %q, %v; want one run for the first files and one for the refresh", data, err)
	}
}

// get sends a GET request to the agent.
func (h *host) get(path string) (string, int) {
	answer, err := http.Get("http://" + h.cfg.Metrics.BindAddress + path)
	if err != nil {
		return "", 0
	}
	defer answer.Body.Close()
	var body strings.Builder
	if err := answer.Write(&body); err != nil {
		h.t.Fatal(err)
	}
	return body.String(), answer.StatusCode
}

func TestMetrics(t *testing.T) {
	h := newHost(t, common.Start(t))
	h.cfg.Metrics.BindAddress = apitest.FreeAddress(h.t)
	h.web(certificate, "serviceAccountToken: {path: token}")
	h.run()
	get := h.get
	request := h.request()
	h.eventually("readyz says what is missing", func() bool {
		body, code := get("/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "not issued yet")
	})
	chain := newSigner(t).issue(h, request)
	h.eventually("the certificate is there", func() bool { return h.file("chain.pem") == chain })
	h.eventually("readyz is fine", func() bool { _, code := get("/readyz"); return code == http.StatusOK })
	var body string
	h.passing(0, "the server's answers are counted", func() bool {
		body, _ = get("/metrics")
		return strings.Contains(body, "\ncertplane_agent_server_reachable 1")
	})
	for _, want := range []string{
		`certplane_agent_podcertificate_states{signer_name="example.com/spiffe",state="fresh"} 1`,
		`certplane_agent_answers_total{result="Issued",signer_name="example.com/spiffe"} 1`,
		`certplane_agent_requests_total{result="ok",signer_name="example.com/spiffe"} 1`,
		`certplane_agent_expiration_timestamp_seconds{namespace="` + h.namespace + `",path="bundle.pem",pod="web",source="podCertificate",volume="tls"} `,
		`certplane_agent_volume_writes_total{result="replaced"}`,
		`certplane_agent_server_last_contact_timestamp_seconds `,
		`certplane_agent_identity_expiration_timestamp_seconds `,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if _, code := get("/healthz"); code != http.StatusOK {
		t.Errorf("/healthz answers %d", code)
	}
}
