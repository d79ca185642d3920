package acme

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cert-manager/cert-manager/pkg/acme/webhook/cmd"
	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/cert-manager/cert-manager/pkg/issuer/acme/dns/rfc2136"
	"github.com/miekg/dns"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/acme/solver/dns/dnstest"
	webhooks "github.com/certplane/certplane/internal/acme/solver/dns/webhook"
	"github.com/certplane/certplane/internal/run/server"
)

// groupVariable is that of cert-manager's webhooks. With it, this program is one.
const groupVariable = "GROUP_NAME"

// runWebhook runs cert-manager's webhook server where this program is started as
// one, as the webhooks of other projects do, and reports whether it was.
func runWebhook() bool {
	group := os.Getenv(groupVariable)
	if group != "" {
		cmd.RunWebhookServer(group, rfc2136.New(rfc2136.WithNamespace(metav1.NamespaceDefault)))
	}
	return group != ""
}

const webhookGroup = "acme.example.com"

// webhook runs cert-manager's webhook server, with its solver for RFC 2136, in a separate
// process until the test ends. It is a client of the server w, as a service account with
// the rights that the charts of webhooks give it. Its certificate and key are in folder.
func (w *world) webhook(folder string, port int) {
	w.t.Helper()
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: "dns-webhook"}
	in := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	ref := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	}
	serviceAccount := &corev1.ServiceAccount{ObjectMeta: in(account.Namespace, account.Name)}
	for _, object := range []client.Object{
		serviceAccount,
		&rbacv1.RoleBinding{
			ObjectMeta: in("kube-system", account.Name), Subjects: []rbacv1.Subject{account},
			RoleRef: ref("Role", "extension-apiserver-authentication-reader"),
		},
		&rbacv1.ClusterRoleBinding{ObjectMeta: in("", account.Name), Subjects: []rbacv1.Subject{account}, RoleRef: ref("ClusterRole", "system:auth-delegator")},
		&rbacv1.Role{ObjectMeta: in(metav1.NamespaceDefault, account.Name), Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch"}},
		}},
		&rbacv1.RoleBinding{ObjectMeta: in(metav1.NamespaceDefault, account.Name), Subjects: []rbacv1.Subject{account}, RoleRef: ref("Role", account.Name)},
	} {
		w.create(object)
	}
	token := &authenticationv1.TokenRequest{}
	if err := w.admin.SubResource("token").Create(w.t.Context(), serviceAccount, token); err != nil {
		w.t.Fatal(err)
	}
	kubeconfig := filepath.Join(folder, "webhook.kubeconfig")
	admin, err := clientcmd.LoadFromFile(w.Kubeconfig)
	if err != nil {
		w.t.Fatal(err)
	}
	for name := range admin.AuthInfos {
		admin.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	}
	if err := clientcmd.WriteToFile(*admin, kubeconfig); err != nil {
		w.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	process := exec.CommandContext(w.t.Context(), self,
		"--secure-port", fmt.Sprint(port), "--bind-address=127.0.0.1", "--cert-dir", folder,
		"--kubeconfig", kubeconfig, "--authentication-kubeconfig", kubeconfig, "--authorization-kubeconfig", kubeconfig)
	process.Env = append(os.Environ(), groupVariable+"="+webhookGroup)
	process.Stdout, process.Stderr = testWriter{w.t}, testWriter{w.t}
	process.Cancel = func() error { return process.Process.Signal(os.Interrupt) }
	process.WaitDelay = 10 * time.Second
	if err := process.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = process.Wait() }) // it was interrupted
}

// waitHealthy waits until a webhook serves.
func waitHealthy(t *testing.T, port int) {
	t.Helper()
	probe := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // only whether it answers
	eventually(t, "the webhook is ready", func() bool {
		answer, err := probe.Get("https://" + loopback(port) + "/readyz")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
}

// An unmodified webhook of cert-manager, which knows only a kubeconfig for a
// standalone server, solves its challenges: it believes the server's certificate,
// and authorizes the account that solves challenges.
func TestWebhook(t *testing.T) {
	secret := base64.StdEncoding.EncodeToString([]byte("a secret of 32 bytes for updates"))
	names := dnstest.Start(t, dnstest.Options{Keys: map[string]dnstest.Key{"updates.": {Algorithm: dns.HmacSHA256, Secret: secret}}},
		"example.com. 300 IN SOA ns1.example.com. admin.example.com. 1 3600 600 86400 60")
	folder, port := t.TempDir(), freePort(t)
	caFile := filepath.Join(folder, "apiserver.crt") // as the webhook names it
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err == nil {
		err = errors.Join(os.WriteFile(caFile, certificate, 0o600), os.WriteFile(filepath.Join(folder, "apiserver.key"), key, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, pebbleOptions{resolver: names.Addr}, func(cfg *server.Config) {
		cfg.ACME.DNS01.RecursiveNameservers = []string{names.Addr}
		cfg.ACME.DNS01.RecursiveNameserversOnly = true
		cfg.ACME.DNS01.PropagationDelay = &metav1.Duration{}
		cfg.ACME.DNS01.Webhooks = []webhooks.Settings{{GroupName: webhookGroup, URL: "https://" + loopback(port), CAFile: caFile}}
	})
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "tsig"}, StringData: map[string]string{"key": secret}})
	config, err := json.Marshal(acmev1.ACMEIssuerDNS01ProviderRFC2136{
		Nameserver: names.Addr, TSIGAlgorithm: "HMACSHA256", TSIGKeyName: "updates",
		TSIGSecret: cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: "tsig"}, Key: "key"},
	})
	if err != nil {
		t.Fatal(err)
	}
	solver := func(group string) acmev1.ACMEChallengeSolver {
		return acmev1.ACMEChallengeSolver{DNS01: &acmev1.ACMEChallengeSolverDNS01{Webhook: &acmev1.ACMEIssuerDNS01ProviderWebhook{
			GroupName: group, SolverName: rfc2136.SolverName, Config: &apiextensionsv1.JSON{Raw: config},
		}}}
	}
	w.issuer("webhook", solver(webhookGroup))
	w.issuer("stranger", solver("acme.example.org"))
	w.request("unknown", "stranger", "unknown.example.com")
	w.request("wild", "webhook", "example.com", "*.example.com")

	w.says(`no DNS webhook of group "acme.example.org" is configured: add it to acme.dns01.webhooks`)
	w.says(`calling the DNS webhook of group "acme.example.com": dial ` + loopback(port) + `: connect: connection refused`)
	w.webhook(folder, port)
	waitHealthy(t, port)
	w.says(`bind a ClusterRole with the rule apiGroups: ["acme.example.com"], resources: ["rfc2136"], verbs: ["create"] to system:serviceaccount:kube-system:cert-manager-challenges`)
	if made := names.Updates(); len(made) > 0 {
		t.Errorf("%d updates without a right to them", len(made))
	}
	caller := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "kube-system", Name: "cert-manager-challenges"}
	w.create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "domain-solver"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{webhookGroup}, Resources: []string{"*"}, Verbs: []string{"create"}},
	}})
	w.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "domain-solver"}, Subjects: []rbacv1.Subject{caller},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "domain-solver"},
	})
	leaf := w.issued("wild")
	if leaf.VerifyHostname("a.example.com") != nil || leaf.VerifyHostname("example.com") != nil {
		t.Errorf("names %v", leaf.DNSNames)
	}
	eventually(t, "the records are gone", func() bool { return len(names.TXT("_acme-challenge.example.com.")) == 0 })
	// With the front proxy's certificate, no other user has the right.
	if len(names.Updates()) < 4 {
		t.Errorf("%d updates", len(names.Updates()))
	}
}

// says waits until a Challenge has a reason with this text.
func (w *world) says(text string) {
	w.t.Helper()
	var last []string
	defer func() {
		if w.t.Failed() {
			w.t.Logf("the reasons are %q", last)
		}
	}()
	eventually(w.t, "a challenge says: "+text, func() bool {
		var challenges acmev1.ChallengeList
		if w.admin.List(w.t.Context(), &challenges) != nil {
			return false
		}
		last = nil
		for _, challenge := range challenges.Items {
			last = append(last, challenge.Status.Reason)
			if strings.Contains(challenge.Status.Reason, text) {
				return true
			}
		}
		return false
	})
}

// request creates a Certificate for DNS names.
func (w *world) request(name, issuer string, names ...string) {
	w.t.Helper()
	w.create(&cmv1.Certificate{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec:       cmv1.CertificateSpec{SecretName: name + "-tls", IssuerRef: cmmeta.IssuerReference{Name: issuer}, DNSNames: names},
	})
}
