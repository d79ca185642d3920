package interop

import (
	"encoding/base64"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// A real kube-controller-manager approves and signs kubelets' requests that
// certplane serves and leaves to it, and looks after its namespaces.
func TestKubeControllerManager(t *testing.T) {
	program, manager := certplane(t), peer(t, "kube-controller-manager")
	config := filepath.Join(t.TempDir(), "server.yaml")
	write(t, config, "apiVersion: config.certplane.dev/v1alpha1\nkind: ServerConfiguration\ncontrollers: ['*', -approve, -sign]\n")
	server, dir := startCertplane(t, program, "--config", config)
	startControllerManager(t, manager, dir)

	t.Run("kubelet client certificate", func(t *testing.T) {
		object := manifest(t, "--signer", "kubernetes.io/kube-apiserver-client-kubelet",
			"--cn", "system:node:n1", "--org", "system:nodes", "--name", "node")
		created := server.do(t, call{method: http.MethodPost, path: csrs, body: object})
		if created.Code != http.StatusCreated {
			t.Fatalf("creating: %+v", created)
		}
		eventually(t, "the request is issued", func() bool { return issued(t, server, "node") != "" })
		if chain := issued(t, server, "node"); !strings.HasPrefix(chain, "-----BEGIN CERTIFICATE-----") {
			t.Errorf("issued %q", chain)
		}
	})
	t.Run("namespace", func(t *testing.T) {
		namespace := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "team"}}
		if created := server.do(t, call{method: http.MethodPost, path: "/api/v1/namespaces", body: namespace}); created.Code != http.StatusCreated {
			t.Fatalf("creating: %+v", created)
		}
		for _, path := range []string{"/serviceaccounts/default", "/configmaps/kube-root-ca.crt"} {
			eventually(t, path+" is made", func() bool { return found(t, server, "/api/v1/namespaces/team"+path) })
		}
		server.do(t, call{method: http.MethodDelete, path: "/api/v1/namespaces/team"})
		eventually(t, "the namespace is gone", func() bool { return !found(t, server, "/api/v1/namespaces/team") })
	})
}

// startCertplane returns the server and the folder in which "data" is its
// data directory.
func startCertplane(t *testing.T, program string, args ...string) (*apiServer, string) {
	t.Helper()
	dir := shortTempDir(t)
	address := freeAddress(t)
	run(t, dir, program, append([]string{"serve", "--data-dir", "data", "--listen", address}, args...)...)
	data := filepath.Join(dir, "data")
	eventually(t, "certplane is ready", func() bool { return exists(filepath.Join(data, "admin.kubeconfig")) })
	server := newAPIServer(t, "https://"+address, data)
	eventually(t, "certplane is ready", server.ready)
	return server, dir
}

func startControllerManager(t *testing.T, program, dir string) {
	t.Helper()
	kubeconfig := filepath.Join(dir, "data/admin.kubeconfig")
	_, port := splitAddress(t, freeAddress(t))
	run(t, dir, program,
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--authentication-skip-lookup",
		"--controllers=csrsigning,csrapproving,csrcleaner,root-ca-certificate-publisher-controller,namespace-controller,serviceaccount-controller",
		"--cluster-signing-cert-file="+filepath.Join(dir, "data/pki/client-ca-root.crt"),
		"--cluster-signing-key-file="+filepath.Join(dir, "data/pki/client-ca-root.key"),
		"--root-ca-file="+filepath.Join(dir, "data/pki/serving-ca.crt"),
		"--bind-address=127.0.0.1", "--secure-port="+port, "--cert-dir="+filepath.Join(dir, "manager"),
		"--leader-elect=false",
	)
}

// issued returns the certificate of a request, or "".
func issued(t *testing.T, server *apiServer, name string) string {
	t.Helper()
	status, _ := server.do(t, call{method: http.MethodGet, path: csrs + "/" + name}).object(t)["status"].(map[string]any)
	encoded, _ := status["certificate"].(string)
	chain, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	return string(chain)
}

func found(t *testing.T, server *apiServer, path string) bool {
	t.Helper()
	return server.do(t, call{method: http.MethodGet, path: path}).Code == http.StatusOK
}
