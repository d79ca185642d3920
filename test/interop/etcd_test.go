package interop

import (
	"crypto/tls"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// etcd refuses what is on the list that certplane writes for it, from the next handshake on.
func TestEtcdRefusesRevoked(t *testing.T) {
	program, etcd := certplane(t), peer(t, "etcd")
	_, dir := startCertplane(t, program)
	do := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "KUBECONFIG="+filepath.Join(dir, "data/admin.kubeconfig"))
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("certplane %s: %v", strings.Join(args, " "), err)
		}
		return string(out)
	}
	const signer = "kubernetes.io/kube-apiserver-client"
	for _, user := range []string{"alice", "bob"} {
		do("request", "--signer", signer, "--cn", user, "--name", user, "--out", user, "--approve")
	}
	do("request", "--signer", "server", "--dns", "localhost", "--name", "etcd", "--out", "etcd", "--approve")
	list := filepath.Join(dir, "list.der")
	write(t, list, do("crl", signer, "-o", "der"))

	address := freeAddress(t)
	run(t, dir, etcd, "--data-dir", "etcd-data", "--listen-peer-urls", "http://"+freeAddress(t),
		"--listen-client-urls", "https://"+address, "--advertise-client-urls", "https://"+address,
		"--cert-file", "etcd/tls.crt", "--key-file", "etcd/tls.key", "--client-cert-auth", "--trusted-ca-file", "data/pki/client-ca.crt", "--client-crl-file", list)
	accepts := func(user string) bool {
		certificate, err := tls.LoadX509KeyPair(filepath.Join(dir, user, "tls.crt"), filepath.Join(dir, user, "tls.key"))
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Timeout: timeout, Transport: &http.Transport{
			TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, InsecureSkipVerify: true}, DisableKeepAlives: true,
		}}
		response, err := client.Get("https://" + address + "/health")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	}
	eventually(t, "etcd accepts alice", func() bool { return accepts("alice") })
	do("revoke", "--file", "alice/tls.crt", "--reason", "Superseded")
	if !accepts("alice") {
		t.Error("etcd refuses alice without the list")
	}
	write(t, list, do("crl", signer, "-o", "der"))
	if accepts("alice") {
		t.Error("etcd accepts alice, who is on the list")
	}
	if !accepts("bob") {
		t.Error("etcd refuses bob, who is not on the list")
	}
}
