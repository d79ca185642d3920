package interop

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A real kubelet gets its client certificate from certplane alone, with only a
// bootstrap token.
func TestKubeletBootstrap(t *testing.T) {
	program, kubelet := certplane(t), peer(t, "kubelet")
	server, dir := startCertplane(t, program)
	testKubelet(t, server, kubelet, dir, bootstrapToken(t, program, dir))
}

// bootstrapToken returns a kubeconfig with a token for kubelets.
func bootstrapToken(t *testing.T, program, dir string) string {
	t.Helper()
	token, err := exec.CommandContext(t.Context(), program, "token", "create", "--data-dir", filepath.Join(dir, "data")).Output()
	if err != nil {
		t.Fatalf("making a bootstrap token: %v", err)
	}
	bootstrap := filepath.Join(dir, "bootstrap.kubeconfig")
	write(t, bootstrap, string(token))
	return bootstrap
}

// A real kubelet gets its client certificate as ever where policies guard its
// signer and deny the rest.
func TestKubeletBootstrapWithPolicies(t *testing.T) {
	program, kubelet := certplane(t), peer(t, "kubelet")
	server, dir := startCertplane(t, program)
	policies := filepath.Join(dir, "policies.yaml")
	write(t, policies, `apiVersion: certplane.dev/v1alpha1
kind: CertificatePolicy
metadata: {name: strong-keys}
spec:
  effect: Limit
  match: {signers: ["kubernetes.io/*"]}
  certificate: {keys: {types: [ECDSAP256, ECDSAP384]}}
---
apiVersion: certplane.dev/v1alpha1
kind: CertificatePolicy
metadata: {name: kubelets-only}
spec: {effect: DenyRest, match: {signers: [kubernetes.io/kube-apiserver-client-kubelet]}}
`)
	admin := filepath.Join(dir, "data/admin.kubeconfig")
	kubectl := func(args ...string) {
		t.Helper()
		if said, err := exec.CommandContext(t.Context(), program, append([]string{"kubectl", "--kubeconfig", admin}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("kubectl %s: %v\n%s", args, err, said)
		}
	}
	kubectl("apply", "-f", policies)
	kubectl("wait", "--for=condition=Ready", "certificatepolicies", "--all", "--timeout=60s")
	testKubelet(t, server, kubelet, dir, bootstrapToken(t, program, dir))
}

// A real kubelet gets its client certificate from certplane's controllers by
// way of a real kube-apiserver.
func TestKubeletBootstrapInCluster(t *testing.T) {
	kubelet := peer(t, "kubelet")
	c := startCluster(t)
	c.controllers(t)
	c.kubectl(t, "create", "serviceaccount", "bootstrapper")
	for _, role := range []string{"system:node-bootstrapper", "system:certificates.k8s.io:certificatesigningrequests:nodeclient"} {
		c.bind(t, role, "system:serviceaccount:certplane-system:bootstrapper")
	}
	bootstrap := c.kubeconfig(t, "bootstrap", map[string]any{"token": c.token(t, "bootstrapper")})
	testKubelet(t, c.apiServer, kubelet, c.dir, bootstrap)
}

// testKubelet runs a kubelet until it has its certificate. The kubelet finds no
// container runtime and ends after that.
func testKubelet(t *testing.T, server *apiServer, kubelet, dir, bootstrap string) {
	t.Helper()
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
	// The certificate can be used: the kubelet's own kubeconfig names it.
	asKubelet := exec.CommandContext(t.Context(), certplane(t), "kubectl", "--kubeconfig", kubeconfig, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
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
