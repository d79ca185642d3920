package approverpolicy

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/certplane/certplane/internal/api/approverpolicy"
	"github.com/certplane/certplane/internal/apitest"
)

// installation is the namespace of approver-policy, and account its service
// account there.
const (
	installation = "approver-policy"
	account      = "approver-policy"
)

// program returns the path of the program approver-policy.
func program(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "tool", "-n", "github.com/cert-manager/approver-policy/cmd").Output()
	if err != nil {
		t.Fatalf("building approver-policy: %v", err)
	}
	return strings.TrimSpace(string(out))
}

func rule(verbs []string, group string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{group}, Resources: resources}
}

// rights are those that its chart gives approver-policy, there with names for
// Leases and Secrets.
func rights() []rbacv1.PolicyRule {
	follow, patch, create := []string{"list", "watch"}, []string{"patch"}, []string{"create"}
	return []rbacv1.PolicyRule{
		rule(follow, approverpolicy.GroupName, approverpolicy.Resource),
		rule(patch, approverpolicy.GroupName, approverpolicy.Resource+"/status"),
		rule(follow, "cert-manager.io", "certificaterequests"),
		rule(patch, "cert-manager.io", "certificaterequests/status"),
		rule([]string{"approve"}, "cert-manager.io", "signers"),
		rule(follow, rbacv1.GroupName, "roles", "clusterroles", "rolebindings", "clusterrolebindings"),
		rule([]string{"create", "patch"}, "", "events"),
		rule([]string{"create", "patch"}, "events.k8s.io", "events"),
		rule(create, "authorization.k8s.io", "subjectaccessreviews"),
		rule(follow, "", "namespaces"),
		rule([]string{"create", "get", "update"}, "coordination.k8s.io", "leases"),
		rule([]string{"get", "list", "watch", "create", "update"}, "", "secrets"),
	}
}

// startProgram runs approver-policy until the test ends, and returns its log.
func (w *world) startProgram() *logBuffer {
	w.t.Helper()
	api := apitest.Client(w.t, w.server.Admin(w.t))
	apitest.NewNamespace(w.t, api, installation)
	w.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: installation, Name: account}})
	w.server.Grant(w.t, "system:serviceaccount:"+installation+":"+account, rights()...)
	token, err := api.CoreV1().ServiceAccounts(installation).CreateToken(w.t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	dir := w.t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(w.kubeconfig(&clientcmdapi.AuthInfo{Token: token.Status.Token}), kubeconfig); err != nil {
		w.t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(apitest.FreeAddress(w.t))
	if err != nil {
		w.t.Fatal(err)
	}
	log := &logBuffer{}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program(w.t), "--kubeconfig", kubeconfig, "--leader-election-namespace", installation,
		"--metrics-bind-address", "0", "--readiness-probe-bind-address", "127.0.0.1:0", "--webhook-host", "127.0.0.1", "--webhook-port", port,
		"--webhook-ca-secret-namespace", installation, "--certificaterequest-max-concurrent-reconciles", "8", "--log-format", "json", "--log-level", "1")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, 10*time.Second
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		cancel()
		cmd.Wait()
		if w.t.Failed() {
			w.t.Logf("approver-policy said:\n%s", log.tail(8<<10))
		}
	})
	return log
}

// kubeconfig is for a client with this credential.
func (w *world) kubeconfig(credential *clientcmdapi.AuthInfo) clientcmdapi.Config {
	w.t.Helper()
	anonymous := w.server.Anonymous(w.t)
	config := *clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: anonymous.Host, CertificateAuthorityData: anonymous.CAData, CertificateAuthority: anonymous.CAFile}
	config.AuthInfos["c"] = credential
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "c"}
	config.CurrentContext = "c"
	return config
}

// logBuffer is safe for concurrent use.
type logBuffer struct {
	mu   sync.Mutex
	text []byte
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	return len(p), nil
}

func (b *logBuffer) tail(n int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text[max(0, len(b.text)-n):])
}

// has reports whether a line has all of these texts.
func (b *logBuffer) has(texts ...string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range bytes.Lines(b.text) {
		if !slices.ContainsFunc(texts, func(text string) bool { return !bytes.Contains(line, []byte(text)) }) {
			return true
		}
	}
	return false
}
