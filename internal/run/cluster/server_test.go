package cluster_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/cluster"
	"github.com/certplane/certplane/internal/run/controllermanager"
	"github.com/certplane/certplane/internal/run/server"
)

// sign has a request approved and waits for its certificate.
func (w world) sign(t *testing.T, name string) {
	t.Helper()
	request := apitest.NewCSR(t, name, certificatesv1.KubeAPIServerClientSignerName, pki.Subject{CommonName: name}, apitest.NewKey(t))
	created := apitest.Create(t, w.admin, request)
	decided := apitest.Decide(t, w.admin, created, certificatesv1.CertificateApproved)
	certs, err := pki.ParseBundle(apitest.Issued(t, w.admin, decided))
	if err != nil || certs[0].Subject.CommonName != name {
		t.Errorf("%s has %v (%v)", name, certs, err)
	}
}

// The controllers work with the rights that the manifests grant, each with its
// own account.
func TestRun(t *testing.T) {
	w := start(t)
	p := run(t, w.config(t))
	w.sign(t, "alice")

	p.stop()
	if err := <-p.ended; err != nil {
		t.Errorf("stopped with %v", err)
	}
	if holder := w.leader(t); holder != "" {
		t.Errorf("after the stop, %s still holds the lease", holder)
	}
}

// What is off by default has its rights when it is switched on.
func TestPublishing(t *testing.T) {
	w := startWith(t, "*", "publish")
	cfg := w.config(t)
	cfg.Controllers = []string{"*", "publish"}
	run(t, cfg)
	apitest.Eventually(t, "the API server's CA is published", func() bool {
		published, err := w.admin.CoreV1().ConfigMaps("default").Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		return err == nil && published.Data["ca.crt"] == string(w.Admin(t).CAData)
	})
}

// A waiting replica takes over at once when the leader stops.
func TestHandOver(t *testing.T) {
	w := start(t)
	cfg := w.config(t)
	cfg.LeaderElection.LeaseDuration.Duration = time.Hour
	first := run(t, cfg)
	apitest.Eventually(t, "the first one leads", func() bool { return w.leader(t) != "" })
	holder := w.leader(t)
	cfg.Health.BindAddress = apitest.FreeAddress(t)
	run(t, cfg)
	w.sign(t, "alice")
	if now := w.leader(t); now != holder {
		t.Fatalf("%s leads, not %s", now, holder)
	}
	first.stop()
	apitest.Eventually(t, "the other one leads", func() bool { now := w.leader(t); return now != "" && now != holder })
	w.sign(t, "bob")
}

func TestLostLease(t *testing.T) {
	w := start(t)
	cfg := w.config(t)
	cfg.LeaderElection.RenewDeadline.Duration = 4 * time.Second // a busy machine keeps the lease until it is stolen
	p := run(t, cfg)
	apitest.Eventually(t, "it leads", func() bool { return w.leader(t) != "" })
	// What cannot be done at the next start is repeated.
	if err := w.admin.CoreV1().ServiceAccounts("certplane-system").Delete(t.Context(), "csr-approver", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.steal(t)
	apitest.Eventually(t, "the controllers have stopped", func() bool { return stopped(cfg) })
	w.install(t, func(*cluster.Config) {})
	apitest.Eventually(t, "it leads again when the other holder's lease has run out", func() bool {
		p.lives(t)
		now := w.leader(t)
		return now != "" && now != "somebody else"
	})
	w.sign(t, "alice")
}

// An API server that is away for longer than the lease does not end the process: it is
// alive but not ready meanwhile, and works again afterwards.
func TestAPIAway(t *testing.T) {
	at := apitest.FreeAddress(t)
	w := startIn(t, apitest.Start(t, func(c *server.Config) { c.Controllers, c.Serving.Listen = []string{}, at }), "*")
	cfg := w.config(t)
	times := &cfg.LeaderElection
	times.LeaseDuration.Duration, times.RenewDeadline.Duration = 3*time.Second, 2*time.Second
	p := run(t, cfg)
	w.sign(t, "alice")
	w.Stop(t)
	apitest.Eventually(t, "the controllers have stopped", func() bool {
		p.lives(t)
		return stopped(cfg)
	})
	if status, _ := probe(cfg, "/healthz"); status != http.StatusOK {
		t.Errorf("/healthz answers %d", status)
	}
	w.Restart(t)
	apitest.Eventually(t, "the controllers are ready again", func() bool {
		p.lives(t)
		return ready(cfg)
	})
	w.sign(t, "bob")
}

// With one user for all controllers, no account is needed.
func TestRunAsOneUser(t *testing.T) {
	w := start(t)
	if err := w.admin.CoreV1().Namespaces().Delete(t.Context(), "certplane-system", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	cfg := w.config(t)
	cfg.ClientConnection.Kubeconfig = w.Kubeconfig
	cfg.UseServiceAccountCredentials, cfg.LeaderElection.LeaderElect = false, false
	run(t, cfg)
	w.sign(t, "alice")
}

// Each error says what to do.
func TestRunRefuses(t *testing.T) {
	w := start(t)
	if err := w.admin.CoreV1().ServiceAccounts("certplane-system").Delete(t.Context(), "csr-approver", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		reason string
		change func(*cluster.Config)
		want   []string
	}{
		{"an account is missing", func(*cluster.Config) {}, []string{"certplane-system/csr-approver", "certplane manifests", "--use-service-account-credentials=false"}},
		{"another namespace", func(c *cluster.Config) { c.Namespace = "elsewhere" }, []string{"elsewhere/controller-cache", "certplane manifests"}},
		{"a user without rights", func(c *cluster.Config) {
			mallory := w.Login(t, "mallory")
			c.ClientConnection.Kubeconfig = w.writeKubeconfig(t, clientcmdapi.AuthInfo{ClientCertificateData: mallory.CertData, ClientKeyData: mallory.KeyData})
		}, []string{"controller-cache", "certplane manifests"}},
		{"wrong credentials", func(c *cluster.Config) {
			c.ClientConnection.Kubeconfig = w.writeKubeconfig(t, clientcmdapi.AuthInfo{Token: "wrong"})
		}, []string{w.URL, "Unauthorized"}},
		{"no CA for a signer that is asked for", func(c *cluster.Config) {
			c.Controllers, c.Signing.CA.CertFile, c.Signing.CA.KeyFile = []string{"sign"}, "", ""
		}, []string{"sign is selected by name", "--cluster-signing-cert-file"}},
		{"a CA that is not there", func(c *cluster.Config) {
			c.Controllers, c.Signing.CA.CertFile = []string{"sign"}, "nosuch.crt"
		}, []string{"signing.ca", "nosuch.crt"}},
		{"a lease of a program whose work is not done", func(c *cluster.Config) {
			c.LeaderElection.AlsoHold = []controllermanager.OtherLease{{Namespace: "kube-system", Name: "cert-manager-controller"}}
		}, []string{"leaderElection.alsoHold[0].controllers: none of issuers, ", "add them to controllers"}},
		{"a port in use", func(c *cluster.Config) {
			c.Controllers, c.Health.BindAddress = []string{"sign"}, strings.TrimPrefix(w.URL, "https://")
		}, []string{"address already in use"}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			cfg := w.config(t)
			tc.change(&cfg)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := cluster.Run(ctx, cfg)
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
}

// Without a CA, the other controllers work.
func TestRunWithoutCA(t *testing.T) {
	w := start(t)
	cfg := w.config(t)
	cfg.Signing.CA.CertFile, cfg.Signing.CA.KeyFile = "", ""
	run(t, cfg)
	w.Grant(t, "bootstrapper", apitest.Allow("create", "certificatesigningrequests certificatesigningrequests/nodeclient"))
	request := apitest.NewCSR(t, "node", certificatesv1.KubeAPIServerClientKubeletSignerName,
		pki.Subject{CommonName: "system:node:n1", Organizations: []string{"system:nodes"}}, apitest.NewKey(t))
	created := apitest.Create(t, apitest.Client(t, w.As(t, "bootstrapper")), request)
	apitest.Eventually(t, "the request is approved", func() bool {
		now, err := w.admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), created.Name, metav1.GetOptions{})
		return err == nil && len(now.Status.Conditions) > 0
	})
}
