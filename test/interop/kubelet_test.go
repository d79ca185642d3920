package interop

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A real kubelet gets its client certificate from certplane, and from nobody
// else, with nothing but a bootstrap token. It finds no container runtime and
// ends after that.
func TestKubeletBootstrap(t *testing.T) {
	program, kubelet := certplane(t), peer(t, "kubelet")
	server, dir := startCertplane(t, program)

	bootstrap := filepath.Join(dir, "bootstrap.kubeconfig")
	token, err := exec.CommandContext(t.Context(), program, "token", "create", "--data-dir", filepath.Join(dir, "data")).Output()
	if err != nil {
		t.Fatalf("making a bootstrap token: %v", err)
	}
	write(t, bootstrap, string(token))
	config := filepath.Join(dir, "kubelet.yaml")
	write(t, config, `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {webhook: {enabled: false}, anonymous: {enabled: false}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix:///nonexistent.sock
failSwapOn: false
failCgroupV1: false
`)
	kubeconfig := filepath.Join(dir, "kubelet.kubeconfig")
	run(t, dir, kubelet,
		"--bootstrap-kubeconfig="+bootstrap, "--kubeconfig="+kubeconfig,
		"--cert-dir="+filepath.Join(dir, "kubelet-pki"), "--root-dir="+filepath.Join(dir, "kubelet-root"),
		"--config="+config, "--hostname-override=n1",
	)
	eventually(t, "the kubelet has written its kubeconfig", func() bool { return exists(kubeconfig) })
	if !exists(filepath.Join(dir, "kubelet-pki/kubelet-client-current.pem")) {
		t.Error("the kubelet has no client certificate")
	}
	list := server.do(t, call{method: http.MethodGet, path: csrs}).object(t)["items"].([]any)
	if len(list) != 1 {
		t.Fatalf("the kubelet made %d requests, want 1", len(list))
	}
	object := list[0].(map[string]any)
	if got := object["spec"].(map[string]any)["signerName"]; got != "kubernetes.io/kube-apiserver-client-kubelet" {
		t.Errorf("the kubelet asked %v", got)
	}
	approval := object["status"].(map[string]any)["conditions"].([]any)[0].(map[string]any)
	if approval["type"] != "Approved" || approval["reason"] != "AutoApproved" ||
		approval["message"] != "Auto approving kubelet client certificate after SubjectAccessReview." {
		t.Errorf("the first condition is %v", approval)
	}
	// The certificate is worth something: the kubelet's own kubeconfig names it.
	asKubelet := exec.CommandContext(t.Context(), program, "kubectl", "--kubeconfig", kubeconfig, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
	if who, err := asKubelet.CombinedOutput(); err != nil || string(who) != "system:node:n1" {
		t.Errorf("the server takes the kubelet for %s (%v)", who, err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
