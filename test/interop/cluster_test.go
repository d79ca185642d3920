package interop

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// cluster is a real kube-apiserver in which certplane's controllers are
// installed, except for their pods: there is no node.
type cluster struct {
	*apiServer
	program string
	dir     string
	admin   string // kubeconfig with all rights
	own     string // kubeconfig of the account that the pods have
	// applying are more flags of the command that installs the manifests.
	applying []string
}

// startCluster installs what "certplane manifests" prints.
func startCluster(t *testing.T, args ...string) *cluster {
	t.Helper()
	return installIn(t, startServers(t), args...)
}

// installIn is startCluster with servers that already run.
func installIn(t *testing.T, servers servers, args ...string) *cluster {
	t.Helper()
	c := newCluster(t, servers)
	c.installWithAccount(t, args...)
	return c
}

// newCluster returns a cluster in which nothing is installed.
func newCluster(t *testing.T, servers servers) *cluster {
	t.Helper()
	c := &cluster{apiServer: servers.peer, program: certplane(t), dir: servers.dir}
	pki := filepath.Join(c.dir, "data/pki")
	c.admin = c.kubeconfig(t, "admin", map[string]any{
		"client-certificate": filepath.Join(pki, "admin.crt"), "client-key": filepath.Join(pki, "admin.key"),
	})
	return c
}

// installWithAccount installs the manifests, and gets a token for the account of the pods.
func (c *cluster) installWithAccount(t *testing.T, args ...string) {
	t.Helper()
	c.install(t, args...)
	eventually(t, "the rights are known", func() bool { return c.may(t, "certplane-controllers", "create", "serviceaccounts/token", "csr-signer") })
	c.own = c.kubeconfig(t, "own", map[string]any{"token": c.token(t, "certplane-controllers")})
}

// install applies the manifests. It fails on warnings, which would be about
// pods that the namespace does not admit, or about a field that no longer
// exists.
func (c *cluster) install(t *testing.T, args ...string) {
	t.Helper()
	manifests := c.certplane(t, "", append([]string{"manifests", "--image", "registry.example.com/certplane:v1"}, args...)...)
	for range 2 { // the second time is the next release
		args := append([]string{"kubectl", "--kubeconfig", c.admin, "apply", "--server-side", "-f", "-"}, c.applying...)
		if said := c.certplane(t, manifests, args...); strings.Contains(said, "Warning") {
			t.Errorf("applying the manifests: %s", said)
		}
	}
}

// may reports whether an account of the namespace may do something there.
func (c *cluster) may(t *testing.T, account, verb, resource, name string) bool {
	t.Helper()
	resource, subresource, _ := strings.Cut(resource, "/")
	review := c.do(t, call{method: http.MethodPost, path: "/apis/authorization.k8s.io/v1/subjectaccessreviews", body: map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
		"spec": map[string]any{"user": "system:serviceaccount:certplane-system:" + account, "resourceAttributes": map[string]any{
			"namespace": "certplane-system", "verb": verb, "resource": resource, "subresource": subresource, "name": name,
		}},
	}})
	allowed, _ := review.object(t)["status"].(map[string]any)["allowed"].(bool)
	return allowed
}

// kubectl runs the built-in kubectl as administrator in the namespace.
func (c *cluster) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return c.certplane(t, "", append([]string{"kubectl", "--kubeconfig", c.admin, "-n", "certplane-system"}, args...)...)
}

// token returns one of a service account of the namespace.
func (c *cluster) token(t *testing.T, account string) string {
	t.Helper()
	return strings.TrimSpace(c.kubectl(t, "create", "token", account))
}

// certplane runs the program under test to its end and returns its output.
func (c *cluster) certplane(t *testing.T, input string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.program, args...)
	cmd.Stdin = strings.NewReader(input)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("certplane %s: %v\n%s", strings.Join(args, " "), err, out.String())
	}
	return out.String()
}

// kubeconfig writes a file for a user.
func (c *cluster) kubeconfig(t *testing.T, name string, user map[string]any) string {
	t.Helper()
	data, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "peer",
		"clusters": []any{map[string]any{"name": "peer", "cluster": map[string]any{
			"server": c.url, "certificate-authority": filepath.Join(c.dir, "peer/apiserver.crt"),
		}}},
		"users":    []any{map[string]any{"name": name, "user": user}},
		"contexts": []any{map[string]any{"name": "peer", "context": map[string]any{"cluster": "peer", "user": name}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(c.dir, name+".kubeconfig")
	write(t, path, string(data))
	return path
}

// replica is one process with the controllers.
type replica struct {
	*process
	health, metrics string // addresses
}

// controllers starts a replica that has the rights of the installed pods and
// waits until it is ready.
func (c *cluster) controllers(t *testing.T, args ...string) *replica {
	t.Helper()
	pki := filepath.Join(c.dir, "data/pki")
	r := &replica{health: freeAddress(t), metrics: freeAddress(t)}
	r.process = run(t, c.dir, c.program, append([]string{
		"controllers", "--kubeconfig", c.own, "--logging-format", "json",
		"--health-probe-bind-address", r.health, "--metrics-bind-address", r.metrics,
		"--cluster-signing-cert-file", filepath.Join(pki, "client-ca.crt"), "--cluster-signing-key-file", filepath.Join(pki, "client-ca.key"),
		"--leader-elect-lease-duration", "4s", "--leader-elect-renew-deadline", "3s", "--leader-elect-retry-period", "500ms",
	}, args...)...)
	eventually(t, "the controllers are ready", func() bool { return answers(r.health, "/readyz") && answers(r.health, "/healthz") })
	return r
}

func answers(address, path string) bool {
	response, err := http.Get("http://" + address + path)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

const lease = "/apis/coordination.k8s.io/v1/namespaces/certplane-system/leases/certplane-controllers"

// leader returns the holder of the lease, or "".
func (c *cluster) leader(t *testing.T) string {
	t.Helper()
	got := c.do(t, call{method: http.MethodGet, path: lease})
	if got.Code != http.StatusOK {
		return ""
	}
	holder, _ := got.object(t)["spec"].(map[string]any)["holderIdentity"].(string)
	return holder
}

// bind gives a ClusterRole to a user.
func (c *cluster) bind(t *testing.T, role, user string) {
	t.Helper()
	created := c.do(t, call{method: http.MethodPost, path: "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", body: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
		"metadata": map[string]any{"generateName": "test-"},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}},
	}})
	if created.Code != http.StatusCreated {
		t.Fatalf("binding %s to %s: %+v", role, user, created)
	}
}

// submit creates a request and returns it.
func (c *cluster) submit(t *testing.T, request call) map[string]any {
	t.Helper()
	request.method, request.path = http.MethodPost, csrs
	created := c.do(t, request)
	if created.Code != http.StatusCreated {
		t.Fatalf("creating a request: %+v", created)
	}
	return created.object(t)
}

// approve approves what submit has returned.
func (c *cluster) approve(t *testing.T, object map[string]any) {
	t.Helper()
	c.decide(t, object, "Approved")
}

// decide approves or denies what submit has returned.
func (c *cluster) decide(t *testing.T, object map[string]any, decision string) {
	t.Helper()
	if object["status"] == nil {
		object["status"] = map[string]any{}
	}
	conditions(condition{decision, "True", "Test"})(object)
	name := object["metadata"].(map[string]any)["name"].(string)
	if decided := c.do(t, call{method: http.MethodPut, path: csrs + "/" + name + "/approval", body: object}); decided.Code != http.StatusOK {
		t.Fatalf("deciding %s: %+v", name, decided)
	}
}
