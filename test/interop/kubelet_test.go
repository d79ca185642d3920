package interop

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-client/pkg/fake"
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

// guardrails hold for all signers of Kubernetes, and only kubelets get certificates
// from theirs.
const guardrails = `apiVersion: certplane.dev/v1alpha1
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
`

// servingConfig installs the ready-made policy. A kubelet's Node has the addresses
// of its host, which the test does not know.
const servingConfig = `apiVersion: config.certplane.dev/v1alpha1
kind: ServerConfiguration
policy:
  install: [kubelet-serving]
  kubeletServing: {nodeZones: [n1], nodeCIDRs: [0.0.0.0/0, "::/0"]}
`

// A real kubelet gets its client certificate as before where policies guard its
// signer and deny the rest.
func TestKubeletBootstrapWithPolicies(t *testing.T) {
	program, kubelet := certplane(t), peer(t, "kubelet")
	server, dir := startCertplane(t, program)
	enforce(t, program, dir, guardrails)
	testKubelet(t, server, kubelet, dir, bootstrapToken(t, program, dir))
}

const (
	clientApproval  = "Approved AutoApproved: Auto approving kubelet client certificate after SubjectAccessReview."
	servingApproval = `Approved PolicyApproved: Approved by CertificatePolicy "kubelet-serving" (generation 1)`
)

// With the ready-made policy, a real kubelet also gets its serving certificate without
// approval by a person. Without the policy, its request waits for a person.
func TestKubeletServing(t *testing.T) {
	program, kubelet := certplane(t), peer(t, "kubelet")
	for _, tc := range []struct{ name, config, policies, serving string }{
		{"no policy", "", "", ""},
		{"the ready-made policy", servingConfig, "", servingApproval},
		{"with guardrails", servingConfig, guardrails, servingApproval},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var args []string
			if tc.config != "" {
				config := filepath.Join(t.TempDir(), "server.yaml")
				write(t, config, tc.config)
				args = []string{"--config", config}
			}
			server, dir := startCertplane(t, program, args...)
			if tc.config != "" {
				enforce(t, program, dir, tc.policies)
			}
			startKubelet(t, kubelet, dir, bootstrapToken(t, program, dir), runtimeOf(t, dir))
			eventually(t, "the kubelet has asked for both certificates", func() bool { return len(approvals(t, server)) == 2 })
			if tc.serving != "" {
				eventually(t, "the kubelet has its serving certificate", func() bool { return exists(filepath.Join(dir, "kubelet-pki/kubelet-server-current.pem")) })
			}
			want := map[string]string{"kubernetes.io/kube-apiserver-client-kubelet": clientApproval, "kubernetes.io/kubelet-serving": tc.serving}
			if got := approvals(t, server); !reflect.DeepEqual(got, want) {
				t.Errorf("%v\nwant %v", got, want)
			}
		})
	}
}

const servingAtOnce = `apiVersion: certplane.dev/v1alpha1
kind: CertificatePolicy
metadata: {name: kubelet-serving}
spec:
  effect: Allow
  match: {kinds: [CertificateSigningRequest], signers: [kubernetes.io/kubelet-serving]}
  certificate:
    subject: {commonName: {patterns: ["{user}"]}, organizations: {exactly: [system:nodes]}}
    names: {dns: {max: 8}, ip: {cidrs: [0.0.0.0/0, "::/0"]}}
    usages: {allowed: [digital signature, key encipherment, server auth]}
  approval: {issueOnCreate: true}
`

// A real kubelet takes its serving certificate from a request that has it from the
// beginning.
func TestKubeletServingAtOnce(t *testing.T) {
	program, kubelet := certplane(t), peer(t, "kubelet")
	server, dir := startCertplane(t, program)
	enforce(t, program, dir, servingAtOnce)
	startKubelet(t, kubelet, dir, bootstrapToken(t, program, dir), runtimeOf(t, dir))
	eventually(t, "the kubelet has its serving certificate", func() bool { return exists(filepath.Join(dir, "kubelet-pki/kubelet-server-current.pem")) })
	if got := approvals(t, server)["kubernetes.io/kubelet-serving"]; got != servingApproval {
		t.Errorf("%s, want %s", got, servingApproval)
	}
	list := server.do(t, call{method: http.MethodGet, path: csrs}).object(t)
	for _, item := range list["items"].([]any) {
		request := item.(map[string]any)
		if request["spec"].(map[string]any)["signerName"] != "kubernetes.io/kubelet-serving" {
			continue
		}
		for _, entry := range request["metadata"].(map[string]any)["managedFields"].([]any) {
			if part := entry.(map[string]any)["subresource"]; part != nil {
				t.Errorf("its %s was written after its creation", part)
			}
		}
	}
}

// approvals returns how the last request of each signer is decided, "" if it is not.
func approvals(t *testing.T, server *apiServer) map[string]string {
	t.Helper()
	decided := map[string]string{}
	for _, item := range server.do(t, call{method: http.MethodGet, path: csrs}).object(t)["items"].([]any) {
		object := item.(map[string]any)
		status, _ := object["status"].(map[string]any)
		text := ""
		if conditions, _ := status["conditions"].([]any); len(conditions) > 0 {
			first := conditions[0].(map[string]any)
			text = fmt.Sprint(first["type"], " ", first["reason"], ": ", first["message"])
		}
		decided[object["spec"].(map[string]any)["signerName"].(string)] = text
	}
	return decided
}

// enforce creates policies, and waits until all are in force.
func enforce(t *testing.T, program, dir, policies string) {
	t.Helper()
	kubectl := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, append([]string{"kubectl", "--kubeconfig", filepath.Join(dir, "data/admin.kubeconfig")}, args...)...)
		cmd.Stdin = strings.NewReader(policies)
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("kubectl %s: %v\n%s", args, err, said)
		}
	}
	if policies != "" {
		kubectl("apply", "-f", "-")
	}
	kubectl("wait", "--for=create", "certificatepolicies", "--all", "--timeout=60s")
	kubectl("wait", "--for=condition=Ready", "certificatepolicies", "--all", "--timeout=60s")
}

// runtimeOf starts a container runtime that is never ready: the kubelet continues, but
// starts no containers and does not change this host.
func runtimeOf(t *testing.T, dir string) string {
	t.Helper()
	runtime, endpoint := fake.NewFakeRemoteRuntime(), "unix://"+filepath.Join(dir, "runtime.sock")
	if err := runtime.Start(endpoint); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(runtime.Stop)
	runtime.RuntimeService.FakeStatus = &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Reason: "Test", Message: "there are no pods here"}, {Type: runtimeapi.NetworkReady, Reason: "Test"},
	}}
	return endpoint
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

// startKubelet runs a kubelet as the node n1, and returns its kubeconfig.
func startKubelet(t *testing.T, kubelet, dir, bootstrap, runtime string) string {
	t.Helper()
	config := filepath.Join(dir, "kubelet.yaml")
	_, port := splitAddress(t, freeAddress(t))
	write(t, config, `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {webhook: {enabled: false}, anonymous: {enabled: false}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: `+runtime+`
port: `+port+`
healthzPort: 0
serverTLSBootstrap: true
failSwapOn: false
failCgroupV1: false
cgroupsPerQOS: false
enforceNodeAllocatable: []
makeIPTablesUtilChains: false
`)
	kubeconfig := filepath.Join(dir, "kubelet.kubeconfig")
	run(t, dir, kubelet,
		"--bootstrap-kubeconfig="+bootstrap, "--kubeconfig="+kubeconfig,
		"--cert-dir="+filepath.Join(dir, "kubelet-pki"), "--root-dir="+filepath.Join(dir, "kubelet-root"),
		"--config="+config, "--hostname-override=n1",
	)
	return kubeconfig
}

// testKubelet runs a kubelet until it has its certificate. The kubelet finds no
// container runtime and ends after that.
func testKubelet(t *testing.T, server *apiServer, kubelet, dir, bootstrap string) {
	t.Helper()
	kubeconfig := startKubelet(t, kubelet, dir, bootstrap, "unix:///nonexistent.sock")
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
