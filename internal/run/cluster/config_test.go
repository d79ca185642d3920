package cluster_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/issuing/signer/webhook"
	"github.com/certplane/certplane/internal/keystore"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/cluster"
)

const head = "apiVersion: config.certplane.dev/v1alpha1\nkind: ControllersConfiguration\n"

// load reads a configuration from a file.
func load(t *testing.T, text string) (cluster.Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "controllers.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return cluster.LoadConfig(path)
}

func TestLoadConfig(t *testing.T) {
	tests := []struct {
		reason, text string
		change       func(*cluster.Config)
	}{
		{"nothing but the head", head, func(*cluster.Config) {}},
		{"the defaults", cluster.DefaultsFile, func(*cluster.Config) {}},
		{"a limit", head + "clientConnection: {qps: 50, burst: 100}", func(c *cluster.Config) {
			c.ClientConnection.QPS, c.ClientConnection.Burst = 50, 100
		}},
		{"a longer lease", head + "leaderElection: {leaseDuration: 1m}", func(c *cluster.Config) {
			c.LeaderElection.LeaseDuration.Duration = time.Minute
		}},
		{"no election, so its values do not matter", head + "leaderElection: {leaderElect: false, leaseDuration: 0s}", func(c *cluster.Config) {
			c.LeaderElection.LeaderElect, c.LeaderElection.LeaseDuration.Duration = false, 0
		}},
		{"nothing served", head + "metrics: {bindAddress: '0'}\nhealth: {bindAddress: '0'}", func(c *cluster.Config) {
			c.Metrics.BindAddress, c.Health.BindAddress = "0", "0"
		}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			got, err := load(t, tc.text)
			if err != nil {
				t.Fatal(err)
			}
			want := cluster.DefaultConfig()
			tc.change(&want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
		})
	}
}

// Each error names the field.
func TestLoadConfigRefuses(t *testing.T) {
	tests := []struct{ reason, text, want string }{
		{"a server's file", strings.Replace(head, "Controllers", "Server", 1), `"ServerConfiguration"`},
		{"a server's stanza", head + "serving: {}", `unknown field "serving"`},
		{"unknown field", head + "leaderElection: {lease: 1s}", `unknown field "leaderElection.lease"`},
		{"no namespace", head + "namespace: ''", "namespace"},
		{"no name of a namespace", head + "namespace: Team A", `namespace: "Team A"`},
		{"negative limit", head + "clientConnection: {qps: -1}", "clientConnection.qps"},
		{"burst below the limit", head + "clientConnection: {qps: 50}", "clientConnection.burst"},
		{"a lease without a name", head + "leaderElection: {resourceName: ''}", "leaderElection.resourceName"},
		{"renewed too late", head + "leaderElection: {renewDeadline: 15s}", "leaderElection.leaseDuration"},
		{"retried too late", head + "leaderElection: {retryPeriod: 9s}", "leaderElection.renewDeadline"},
		{"retried all the time", head + "leaderElection: {retryPeriod: 0s}", "leaderElection.retryPeriod"},
		{"a lease that is no second", head + "leaderElection: {leaseDuration: 900ms, renewDeadline: 500ms, retryPeriod: 100ms}", "leaderElection.leaseDuration"},
		{"a set that does not exist", head + "controllers: ['@certmanager']", `controllers: unknown set "@certmanager": use one of `},
		{"a lease for no controller", head + alsoHold("{namespace: a, name: b, controllers: [x]}"), `leaderElection.alsoHold[0].controllers: "x" is not one of `},
		{"a lease in no namespace", head + alsoHold("{name: cert-manager-controller}"), `leaderElection.alsoHold[0].namespace: "" cannot be a namespace`},
		{"a lease without a name", head + alsoHold("{namespace: a}"), `leaderElection.alsoHold[0].name: "" cannot be the name of a Lease`},
		{"a webhook at some time", head + "webhook: {serve: Sometimes}", "webhook.serve"},
		{"a webhook nowhere", head + "webhook: {bindAddress: '0'}", "webhook.bindAddress"},
		{"a webhook without a port", head + "webhook: {bindAddress: a}", "webhook.bindAddress"},
		{"half a certificate", head + "metrics: {certFile: a}", "metrics.certFile and metrics.keyFile"},
		{"metrics at no address", head + "metrics: {bindAddress: here}", "metrics.bindAddress"},
		{"health at no address", head + "health: {bindAddress: '8081'}", "health.bindAddress"},
		{"wrong logging", head + "logging: {format: xml}", "logging.format"},
		{"no such controller", head + "controllers: [signer]", `controllers: unknown controller "signer"`},
		{"listeners allowed somehow", head + "certManager: {gatewayShim: {allowedListeners: Some}}", "certManager.gatewayShim.allowedListeners"},
		{"wrong signing", head + "signing: {maxDuration: 1s}", "signing.maxDuration"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			if cfg, err := load(t, tc.text); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q (read as %+v)", err, tc.want, cfg)
			}
		})
	}
}

func alsoHold(rows string) string { return "leaderElection: {alsoHold: [" + rows + "]}" }

func TestAccounts(t *testing.T) {
	tests := []struct {
		reason string
		choice []string
		with   []string // besides the cache's
		not    []string
	}{
		{"by default, kube-controller-manager publishes and looks after nodes", []string{"*"}, []string{"csr-approver", "csr-signer"}, []string{"root-ca-cert-publisher", "node-controller"}},
		{"nodes, asked for by name", []string{"node-lifecycle-controller"}, []string{"node-controller"}, []string{"csr-signer"}},
		{"by default, cert-manager answers what is its own", []string{"*"}, nil, []string{"cert-manager-issuers", "cert-manager-certificaterequests",
			"cert-manager-certificatesigningrequests", "cert-manager-certificaterequests-approver"}},
		{"in the place of cert-manager", []string{"*", "issuers", "certificaterequests"},
			[]string{"cert-manager-issuers", "cert-manager-certificaterequests"}, []string{"cert-manager-certificaterequests-approver"}},
		{"asked for by name", []string{"*", "publish"}, []string{"csr-approver", "root-ca-cert-publisher"}, nil},
		{"signers apart from approvers", []string{"sign"}, []string{"csr-signer"}, []string{"csr-approver", "root-ca-cert-publisher"}},
		{"approvers apart from signers", []string{"*", "-sign"}, []string{"csr-approver"}, []string{"csr-signer"}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			cfg := cluster.DefaultConfig()
			cfg.Controllers = tc.choice
			cfg.Signing.CA = keystore.Settings{CertFile: "a", KeyFile: "b"}
			accounts := cfg.Accounts()
			for _, account := range append(tc.with, "controller-cache") {
				if !slices.Contains(accounts, account) {
					t.Errorf("%s is not among %v", account, accounts)
				}
			}
			for _, account := range tc.not {
				if slices.Contains(accounts, account) {
					t.Errorf("%s is among %v", account, accounts)
				}
			}
		})
	}
}

// A process that has nothing to sign with needs no account for signing.
func TestAccountsThatSign(t *testing.T) {
	tests := []struct {
		reason string
		change func(*cluster.Config)
		lacks  bool
		want   []string
	}{
		{"nothing to sign with", func(*cluster.Config) {}, true, nil},
		{"a CA", func(c *cluster.Config) { c.Signing.CA.CertFile = "a" }, false, []string{"csr-signer"}},
		{"webhooks", func(c *cluster.Config) { c.Signing.Webhooks = []webhook.Settings{{SignerName: "example.com/x"}} }, false, []string{"csr-webhook-signer"}},
		{"not to sign", func(c *cluster.Config) { c.Controllers = []string{"*", "-sign", "-signers"} }, false, nil},
		{"for declared signers alone", func(c *cluster.Config) { c.Controllers = []string{"signers"} }, false, []string{"declared-signer"}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			cfg := cluster.DefaultConfig()
			cfg.Controllers = []string{"*", "-signers"}
			tc.change(&cfg)
			var got []string
			for _, account := range cfg.Accounts() {
				if strings.HasSuffix(account, "-signer") {
					got = append(got, account)
				}
			}
			if !slices.Equal(got, tc.want) || cfg.LacksCA() != tc.lacks {
				t.Errorf("accounts %v, lacks a CA: %v; want %v, %v", got, cfg.LacksCA(), tc.want, tc.lacks)
			}
		})
	}
}

// The webhook is served with what it guards, unless the configuration says
// otherwise.
func TestServesWebhook(t *testing.T) {
	const outside = "clientConnection: {kubeconfig: f}\n"
	tests := []struct {
		text                 string
		certManager, signers bool
	}{
		{"", false, true},
		{"controllers: ['*', '-signers']", false, false},
		{outside, false, false},
		{outside + "controllers: ['*', certificates]", true, true},
		{"controllers: ['*', certificates]", true, true},
		{"controllers: [certificaterequests-approver]", true, false},
		{"controllers: ['*', certificates]\nwebhook: {serve: Never}", false, false},
		{outside + "webhook: {serve: Always}", true, true},
	}
	for _, tc := range tests {
		cfg, err := load(t, head+tc.text)
		if err != nil {
			t.Fatal(err)
		}
		if cfg.AdmitsCertManager() != tc.certManager || cfg.AdmitsSigners() != tc.signers {
			t.Errorf("%q: cert-manager.io %t, Signers %t", tc.text, cfg.AdmitsCertManager(), cfg.AdmitsSigners())
		}
		served := tc.certManager || tc.signers
		if cfg.ServesWebhook() != served || slices.Contains(cfg.Accounts(), rights.WebhookAccount) != served {
			t.Errorf("%q: %t, %v", tc.text, cfg.ServesWebhook(), cfg.Accounts())
		}
	}
}
