package interop

import (
	"path/filepath"
	"regexp"
	"testing"
)

// A real cluster is checked before the manifests are applied to it, and what they have made
// afterwards: the pods, which there are none of here, have not yet written the CAs of the
// webhooks.
func TestCheck(t *testing.T) {
	servers := startServers(t)
	pki := filepath.Join(servers.dir, "data/pki")
	c := &cluster{apiServer: servers.peer, program: certplane(t), dir: servers.dir}
	c.admin = c.kubeconfig(t, "admin", map[string]any{
		"client-certificate": filepath.Join(pki, "admin.crt"), "client-key": filepath.Join(pki, "admin.key"),
	})
	c.checks(t, nil,
		`ok +it is Kubernetes v1\.`,
		`ok +there are no requests`,
		`\d+ ok(, \d+ warnings?)?\n$`,
	)
	c.certplane(t, "", "requests", "--kubeconfig", c.admin) // of a server without PodCertificateRequests
	c.checks(t, []string{"--pre"},
		`ok +it is Kubernetes v1\.`,
		`ok +CertificateSigningRequests are served, in certificates\.k8s\.io/v1`,
		`ok +the kinds of cert-manager\.io are not installed`,
		`ok +the cluster has all kinds of the manifests`,
		`ok +you may create all objects of certplane manifests`,
		`ok +the namespace certplane-system does not exist yet`,
		`ok +the PriorityClass system-cluster-critical exists`,
		`\d+ ok(, \d+ warnings?)?\n$`,
	)
	c.install(t)
	c.checks(t, []string{"--pre"},
		`ok +the namespace certplane-system exists`,
		`warning +the Secret certplane-ca does not exist, and the pods wait for it\n +certplane kubectl .*create secret tls certplane-ca`,
	)
}

// checks runs the check verb as administrator, which must find no failure and print all patterns.
func (c *cluster) checks(t *testing.T, args []string, patterns ...string) {
	t.Helper()
	said := c.certplane(t, "", append([]string{"check", "--kubeconfig", c.admin}, args...)...)
	for _, pattern := range patterns {
		if !regexp.MustCompile(pattern).MatchString(said) {
			t.Errorf("certplane check %q does not print %s:\n%s", args, pattern, said)
		}
	}
}
