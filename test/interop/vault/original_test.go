package vault

import (
	"context"
	"crypto/x509"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	apiutil "github.com/cert-manager/cert-manager/pkg/api/util"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests"
	requestsvault "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/vault"
	issuervault "github.com/cert-manager/cert-manager/pkg/issuer/vault"

	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/signer/vault"
	issuingvault "github.com/certplane/certplane/internal/issuing/vault"
)

// original is cert-manager's own code for Vault, as a client of certplane's API.
type original struct {
	*controller.Context
	sign certificaterequests.Issuer
}

// newOriginal returns cert-manager's code. It would follow the variables that
// TestMain has set.
func newOriginal(t *testing.T, kubeconfig string) *original {
	t.Helper()
	for _, name := range nonsense {
		t.Setenv(name, "")
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig: kubeconfig, KubernetesAPIQPS: 1000, KubernetesAPIBurst: 1000,
		IssuerOptions: controller.IssuerOptions{ClusterResourceNamespace: clusterNamespace},
	})
	if err != nil {
		t.Fatal(err)
	}
	made, err := factory.Build("compared")
	if err != nil {
		t.Fatal(err)
	}
	o := &original{Context: made, sign: requestsvault.NewVault(made)}
	made.KubeSharedInformerFactory.Start(ctx.Done())
	made.KubeSharedInformerFactory.WaitForCacheSync(ctx.Done())
	return o
}

// setUp returns the readiness that cert-manager finds, as world.readiness does.
func (o *original) setUp(t *testing.T, of cmv1.GenericIssuer) string {
	t.Helper()
	issuer, err := issuervault.NewVault(o.Context)
	if err != nil {
		t.Fatal(err)
	}
	copied := of.DeepCopyObject().(cmv1.GenericIssuer)
	*copied.GetStatus() = cmv1.IssuerStatus{}
	_ = issuer.Setup(t.Context(), copied) // the condition has the error
	for _, c := range copied.GetStatus().Conditions {
		return fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
	}
	return ""
}

// answer returns what cert-manager makes of a request: its state as
// world.state does, its certificate and CA.
func (o *original) answer(t *testing.T, request *cmv1.CertificateRequest, by *cmv1.Issuer) (state string, certificate, ca []byte) {
	t.Helper()
	cr := request.DeepCopy()
	cr.Status = cmv1.CertificateRequestStatus{}
	response, err := o.sign.Sign(t.Context(), cr, by)
	if response != nil {
		return "Issued Certificate fetched from issuer successfully", response.Certificate, response.CA
	}
	ready := apiutil.GetCertificateRequestCondition(cr, cmv1.CertificateRequestConditionReady)
	if ready == nil {
		t.Fatalf("cert-manager says nothing: %v", err)
	}
	return ready.Reason + " " + ready.Message, nil, nil
}

// comparable returns what two calls have in common if they do the same.
func comparable(c call) string {
	headers := map[string]string{}
	for name := range c.Header {
		if strings.HasPrefix(name, "X-Vault") && name != "X-Vault-Token" {
			headers[name] = c.Header.Get(name)
		}
	}
	body := maps.Clone(c.Body)
	delete(body, "jwt") // one for each login
	return fmt.Sprintf("%s %s %v token %v %v", c.Method, c.Path, headers, c.Header.Get("X-Vault-Token") != "", body)
}

// For each way to log in, certplane sends what cert-manager sends, and gives the
// same certificates to requests and the same words to failures.
func TestLikeCertManager(t *testing.T) {
	eachPeer(t, func(t *testing.T, p *peer) {
		w := newWorld(t, p)
		o := newOriginal(t, w.Kubeconfig)
		below, _ := w.intermediate()
		w.account(w.namespace, "login")
		mounted := w.enableKubernetes("")
		token := selector("token", "")
		var made struct {
			Auth struct {
				Token string `json:"client_token"`
			}
		}
		p.must(t, "POST", "auth/token/create", map[string]any{"policies": []string{w.policy}, "ttl": "1h"}, &made)
		w.secret("token", map[string]string{"token": made.Auth.Token})
		w.secret("jwt", map[string]string{"token": w.token("login")})
		w.secret("role", map[string]string{"secretId": w.secretID()})
		w.secret("wrong", map[string]string{"secretId": "wrong"})
		logins := map[string]cmv1.VaultAuth{
			"token": {TokenSecretRef: &token}, "role": w.byRole("role"), "account": byAccount(mounted, "more"),
			"jwt": {Kubernetes: &cmv1.VaultKubernetesAuth{Path: "/v1/auth/" + mounted, Role: "certplane", SecretRef: selector("jwt", "token")}},
		}
		for _, name := range slices.Sorted(maps.Keys(logins)) {
			t.Run(name, func(t *testing.T) {
				spec := w.spec(logins[name])
				spec.Path, spec.Namespace = below+"/sign/web", "team"
				w.compare(t, o, name, spec, newCSR(t, x509.CertificateRequest{DNSNames: []string{name + ".example.com"}}))
			})
		}
		foreign := newCSR(t, x509.CertificateRequest{DNSNames: []string{"www.example.org"}})
		for name, edit := range map[string]func(*cmv1.VaultIssuer){
			"refused":  func(*cmv1.VaultIssuer) {},
			"norole":   func(s *cmv1.VaultIssuer) { s.Path = w.pki + "/sign/none" },
			"nomount":  func(s *cmv1.VaultIssuer) { s.Path = "none/sign/web" },
			"badlogin": func(s *cmv1.VaultIssuer) { s.Auth = w.byRole("wrong") },
			"nologin":  func(s *cmv1.VaultIssuer) { s.Auth.AppRole.Path = "none" },
			"missing":  func(s *cmv1.VaultIssuer) { s.Auth = w.byRole("nosuch") },
			"nokey":    func(s *cmv1.VaultIssuer) { s.Auth.AppRole.SecretRef.Key = "none" },
			"nobundle": func(s *cmv1.VaultIssuer) {
				ref := selector("nosuch", "")
				s.CABundle, s.CABundleSecretRef = nil, &ref
			},
			"nouser": func(s *cmv1.VaultIssuer) {
				s.Auth = byAccount(mounted)
				s.Auth.Kubernetes.Role = "none"
			},
		} {
			t.Run(name, func(t *testing.T) {
				spec := w.spec(w.byRole("role"))
				edit(spec)
				w.compare(t, o, name, spec, foreign)
			})
		}
	})
}

// compare has one request answered by both, for an issuer with this spec.
func (w *world) compare(t *testing.T, o *original, name string, spec *cmv1.VaultIssuer, csr []byte) {
	t.Helper()
	w.proxy.forget()
	issuer := w.issuer(name, spec)
	want := o.setUp(t, issuer)
	w.says(issuer, want[:strings.Index(want, " ")])
	if got := w.readiness(issuer); got != want {
		t.Errorf("the issuer says\n%s\nwhat cert-manager says is\n%s", got, want)
	}
	cr := w.requestFor(name, name, csr)
	if strings.HasPrefix(want, "False") {
		return
	}
	eventually(t, "the request is answered", func() bool { return len(w.state(cr)) > 0 && !strings.HasPrefix(w.state(cr), "Pending") })
	ours := w.proxy.with("/")
	w.proxy.forget()
	state, certificate, ca := o.answer(t, cr, issuer)
	theirs := w.proxy.with("/")
	if got := w.state(cr); got != state {
		t.Errorf("the request is\n%s\nwhat cert-manager says is\n%s", got, state)
	}
	if certificate != nil {
		sameChain(t, "certificate", cr.Status.Certificate[len(firstPEM(cr.Status.Certificate)):], certificate[len(firstPEM(certificate)):])
		sameChain(t, "CA", cr.Status.CA, ca)
	}
	sent := map[string]bool{}
	for _, c := range ours {
		sent[comparable(c)] = true
	}
	for _, c := range theirs {
		if text := comparable(c); !sent[text] {
			t.Errorf("cert-manager calls\n%s\ncertplane calls\n%s", text, strings.Join(slices.Sorted(maps.Keys(sent)), "\n"))
		}
	}
}

// firstPEM returns the first block, with its line end.
func firstPEM(text []byte) string {
	before, _, _ := strings.Cut(string(text), "-----END CERTIFICATE-----\n")
	return before + "-----END CERTIFICATE-----\n"
}

func sameChain(t *testing.T, what string, ours, theirs []byte) {
	t.Helper()
	if strings.TrimSpace(string(ours)) != strings.TrimSpace(string(theirs)) {
		t.Errorf("%s is\n%s\ncert-manager's is\n%s", what, ours, theirs)
	}
}

// Errors of a spec have cert-manager's messages, and if there are several, cert-manager's
// choice.
func TestConfigurationLikeCertManager(t *testing.T) {
	s := shared.Start(t)
	o := newOriginal(t, s.Kubeconfig)
	pool, err := vault.New(vault.Config{Settings: vault.DefaultSettings()})
	if err != nil {
		t.Fatal(err)
	}
	ours := issuingvault.New(issuing.Config{}, pool)
	random := rand.New(rand.NewPCG(1, 2))
	seen := map[string]int{}
	for range 10_000 {
		issuer := &cmv1.Issuer{}
		issuer.Namespace, issuer.Name, issuer.Generation = "default", "random", 1
		issuer.Spec.Vault = randomSpec(random)
		if complete(issuer.Spec.Vault) {
			continue // would be called
		}
		want := o.setUp(t, issuer)
		ready, err := ours.Check(t.Context(), issuer, time.Now())
		if err != nil || ready.OK {
			t.Fatalf("%+v: %+v, %v", issuer.Spec.Vault, ready, err)
		}
		if got := "False " + ready.Reason + " " + ready.Message; got != want {
			t.Fatalf("%+v:\n%s\nwhat cert-manager says is\n%s", issuer.Spec.Vault, got, want)
		}
		seen[want]++
	}
	if len(seen) < 9 {
		t.Errorf("only %d messages: %v", len(seen), seen)
	}
}

func randomSpec(random *rand.Rand) *cmv1.VaultIssuer {
	some := func(value string) string {
		if random.IntN(4) == 0 {
			return ""
		}
		return value
	}
	ref := func() cmmeta.SecretKeySelector { return selector(some("secret"), some("key")) }
	spec := &cmv1.VaultIssuer{Server: some("https://127.0.0.1:1"), Path: some("pki/sign/web")}
	if random.IntN(4) == 0 {
		token := ref()
		spec.Auth.TokenSecretRef = &token
	}
	if random.IntN(4) == 0 {
		spec.Auth.AppRole = &cmv1.VaultAppRole{Path: some("approle"), RoleId: some("role"), SecretRef: ref()}
	}
	if random.IntN(8) == 0 {
		spec.Auth.ClientCertificate = &cmv1.VaultClientCertificateAuth{Name: some("name")}
	}
	if random.IntN(3) == 0 {
		spec.Auth.Kubernetes = &cmv1.VaultKubernetesAuth{Role: some("role")}
		if random.IntN(2) == 0 {
			spec.Auth.Kubernetes.SecretRef = ref()
		}
		if random.IntN(2) == 0 {
			spec.Auth.Kubernetes.ServiceAccountRef = &cmv1.ServiceAccountRef{Name: some("account")}
		}
	}
	return spec
}

// complete reports whether a spec leads to a call.
func complete(s *cmv1.VaultIssuer) bool {
	methods := 0
	for _, set := range []bool{s.Auth.TokenSecretRef != nil, s.Auth.AppRole != nil, s.Auth.ClientCertificate != nil, s.Auth.Kubernetes != nil} {
		if set {
			methods++
		}
	}
	role, kube := s.Auth.AppRole, s.Auth.Kubernetes
	return s.Server != "" && s.Path != "" && methods == 1 &&
		(s.Auth.TokenSecretRef == nil || s.Auth.TokenSecretRef.Name != "") &&
		(role == nil || role.RoleId != "" && role.SecretRef.Name != "" && role.SecretRef.Key != "") &&
		(kube == nil || kube.Role != "" && (kube.SecretRef.Name != "") != (kube.ServiceAccountRef != nil))
}
