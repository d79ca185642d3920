package interop

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certplane's controllers serve a real kube-apiserver with the rights that
// their manifests give them.
func TestControllersInCluster(t *testing.T) {
	c := startCluster(t)
	config := filepath.Join(c.dir, "controllers.yaml")
	write(t, config, `apiVersion: config.certplane.dev/v1alpha1
kind: ControllersConfiguration
cleaning: {denied: 1s, fetch: 1s}
`)
	replica := c.controllers(t, "--config", config)

	t.Run("client certificate", func(t *testing.T) {
		object := c.submit(t, call{body: manifest(t, "--signer", "kubernetes.io/kube-apiserver-client", "--cn", "alice", "--name", "alice")})
		c.approve(t, object)
		leaf := c.issued(t, "alice")
		if leaf.Subject.CommonName != "alice" {
			t.Errorf("issued for %s", leaf.Subject)
		}
	})
	t.Run("kubelet", func(t *testing.T) { c.testKubeletRequests(t) })
	t.Run("kubelet serving certificate", func(t *testing.T) {
		c.bind(t, "system:node-bootstrapper", "system:node:n1")
		c.approve(t, c.submit(t, call{user: "system:node:n1", group: "system:nodes", body: manifest(t, "--signer", "kubernetes.io/kubelet-serving",
			"--cn", "system:node:n1", "--org", "system:nodes", "--dns", "n1.example.com", "--name", "node-serving")}))
		if leaf := c.issued(t, "node-serving"); len(leaf.DNSNames) != 1 || leaf.DNSNames[0] != "n1.example.com" {
			t.Errorf("issued for %s", leaf.DNSNames)
		}
	})
	t.Run("not approved by itself", func(t *testing.T) {
		c.submit(t, call{user: "installer", body: manifest(t, "--signer", "kubernetes.io/kube-apiserver-client-kubelet",
			"--cn", "not-a-node", "--org", "system:nodes", "--name", "node-unlike")})
		c.approve(t, c.submit(t, call{body: manifest(t, "--signer", "kubernetes.io/kube-apiserver-client", "--cn", "later", "--name", "later")}))
		c.issued(t, "later")
		if issued(t, c.apiServer, "node-unlike") != "" {
			t.Error("a request that no kubelet makes was approved")
		}
	})
	t.Run("durations", func(t *testing.T) { c.testDurations(t) })
	t.Run("cleaning", func(t *testing.T) { c.testCleaning(t) })
	t.Run("metrics", func(t *testing.T) { c.testMetrics(t, replica) })
	if said := replica.output.tail(1 << 20); strings.Contains(said, "forbidden") {
		t.Errorf("a right is missing:\n%s", said)
	}
}

// testCleaning checks that only requests that are over are deleted.
func (c *cluster) testCleaning(t *testing.T) {
	request := func(name string) map[string]any {
		return c.submit(t, call{body: manifest(t, "--signer", "kubernetes.io/kube-apiserver-client", "--cn", name, "--name", name)})
	}
	request("pending")
	c.decide(t, request("denied"), "Denied")
	eventually(t, "the denied request is deleted", func() bool { return !found(t, c.apiServer, csrs+"/denied") })
	for _, name := range []string{"alice", "pending"} {
		if !found(t, c.apiServer, csrs+"/"+name) {
			t.Errorf("%s is deleted", name)
		}
	}
}

// testKubeletRequests checks that requests of users that may have node
// certificates approved need no person. Others get a message about what is
// missing, once.
func (c *cluster) testKubeletRequests(t *testing.T) {
	request := func(user, name string) call {
		return call{user: user, body: manifest(t, "--signer", "kubernetes.io/kube-apiserver-client-kubelet",
			"--cn", "system:node:n1", "--org", "system:nodes", "--name", name)}
	}
	for _, user := range []string{"installer", "nobody"} {
		c.bind(t, "system:node-bootstrapper", user)
	}
	c.bind(t, "system:certificates.k8s.io:certificatesigningrequests:nodeclient", "installer")
	c.submit(t, request("nobody", "not-permitted"))
	c.submit(t, request("installer", "kubelet"))
	if leaf := c.issued(t, "kubelet"); leaf.Subject.CommonName != "system:node:n1" {
		t.Errorf("issued for %s", leaf.Subject)
	}
	var told []any
	eventually(t, "the refusal is told of", func() bool {
		path := "/apis/events.k8s.io/v1/namespaces/default/events?fieldSelector=regarding.name=not-permitted"
		told = c.do(t, call{method: http.MethodGet, path: path}).object(t)["items"].([]any)
		return len(told) > 0
	})
	event := told[0].(map[string]any)
	if note, _ := event["note"].(string); len(told) > 1 || event["reason"] != "NotPermitted" || !strings.Contains(note, `user "nobody" may not create`) {
		t.Errorf("%d events, the first %v", len(told), event)
	}
	if got := issued(t, c.apiServer, "not-permitted"); got != "" {
		t.Errorf("issued %s", got)
	}
	// The explanation is the same as the approver's, here too.
	said := c.certplane(t, "", "explain", "csr", "not-permitted", "--kubeconfig", c.admin)
	for _, part := range []string{
		"not-permitted waits for a person to approve it, because its requester lacks a permission\n",
		`user "nobody" may not create certificatesigningrequests/nodeclient`, "NotPermitted  csr-approver", "may sign: certplane-system/csr-signer",
	} {
		if !strings.Contains(said, part) {
			t.Errorf("the explanation does not say %q:\n%s", part, said)
		}
	}
}

// testDurations checks that a client gets the duration that it requests. The five minutes
// of backdating are added to all durations except long ones.
func (c *cluster) testDurations(t *testing.T) {
	for asked, want := range map[string]time.Duration{"10m": 15 * time.Minute, "2h": 2*time.Hour + 5*time.Minute, "10h": 10 * time.Hour} {
		name := "duration-" + asked
		c.approve(t, c.submit(t, call{body: manifest(t, "--signer", "kubernetes.io/kube-apiserver-client", "--cn", "bob", "--name", name, "--expires", asked)}))
		leaf := c.issued(t, name)
		if got := leaf.NotAfter.Sub(leaf.NotBefore); got != want {
			t.Errorf("asked for %s: got %s, want %s", asked, got, want)
		}
	}
}

// issued waits for a request's certificate.
func (c *cluster) issued(t *testing.T, name string) *x509.Certificate {
	t.Helper()
	var chain string
	eventually(t, name+" is issued", func() bool { chain = issued(t, c.apiServer, name); return chain != "" })
	block, _ := pem.Decode([]byte(chain))
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return leaf
}

// testMetrics checks that only users with the right to see the metrics see
// them.
func (c *cluster) testMetrics(t *testing.T, r *replica) {
	c.kubectl(t, "create", "serviceaccount", "monitor")
	c.bind(t, "system:monitoring", "system:serviceaccount:certplane-system:monitor")
	for _, tc := range []struct {
		reason, token string
		want          int
	}{
		{"nobody", "", http.StatusUnauthorized},
		{"somebody without rights", c.token(t, "csr-signer"), http.StatusForbidden},
		{"a monitor", c.token(t, "monitor"), http.StatusOK},
	} {
		code, text := r.scrape(t, tc.token)
		if code != tc.want {
			t.Errorf("%s: %d, want %d", tc.reason, code, tc.want)
		}
		if tc.want == http.StatusOK && !strings.Contains(text, `certplane_signing_issued_total{signer="kubernetes.io/kube-apiserver-client"}`) {
			t.Errorf("no certificates in the metrics:\n%s", text)
		}
	}
}

func (r *replica) scrape(t *testing.T, token string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+r.metrics+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Timeout: timeout, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}
