package vault

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/apitest"
)

// clusterNamespace is the namespace of the Secrets and the service accounts of
// ClusterIssuers.
const clusterNamespace = "cert-manager"

// enableKubernetes enables the login by service accounts. Its role may be used by
// the service account login, of the world's namespace and of that of
// ClusterIssuers.
func (w *world) enableKubernetes(audience string) (mounted string) {
	w.t.Helper()
	mounted = w.peer.enable(w.t, "auth", "kubernetes")
	w.configureKubernetes(mounted)
	w.peer.write(w.t, "auth/"+mounted+"/role/certplane", map[string]any{
		"bound_service_account_names": "login", "bound_service_account_namespaces": []string{w.namespace, clusterNamespace},
		"audience": audience, "token_policies": w.policy, "token_ttl": "1h",
	})
	return mounted
}

// configureKubernetes has the login ask certplane's TokenReview whether tokens
// are good.
func (w *world) configureKubernetes(mounted string) {
	w.t.Helper()
	w.create(&corev1.ServiceAccount{ObjectMeta: w.meta("reviewer")},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: w.namespace + ":reviewer"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:auth-delegator"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: w.namespace, Name: "reviewer"}},
		})
	w.peer.write(w.t, "auth/"+mounted+"/config", map[string]any{
		"kubernetes_host": w.URL, "kubernetes_ca_cert": string(w.Admin(w.t).CAData), "token_reviewer_jwt": w.token("reviewer"),
	})
}

// token makes a token of a service account.
func (w *world) token(account string, audiences ...string) string {
	w.t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	made, err := apitest.Client(w.t, w.Admin(w.t)).CoreV1().ServiceAccounts(w.namespace).CreateToken(w.t.Context(), account, request, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return made.Status.Token
}

// account creates a service account, and lets issuers use it.
func (w *world) account(namespace, name string) {
	w.t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	account := &corev1.ServiceAccount{ObjectMeta: meta}
	binding := &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}}
	for _, controller := range []string{"issuers", "certificaterequests", "certificatesigningrequests"} {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{Kind: "ServiceAccount", Namespace: "kube-system", Name: "cert-manager-" + controller})
	}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{name}, Verbs: []string{"create"},
	}}}
	w.create(account, role, binding)
}

// audiences returns the audiences of the token in the last login.
func (w *world) audiences() []string {
	w.t.Helper()
	logins := w.proxy.with("/login")
	if len(logins) == 0 {
		w.t.Fatal("no login")
	}
	jwt, _ := logins[len(logins)-1].Body["jwt"].(string)
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		w.t.Fatalf("no JWT in the login")
	}
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		w.t.Fatal(err)
	}
	var parsed struct{ Aud []string }
	if err := json.Unmarshal(claims, &parsed); err != nil {
		w.t.Fatal(err)
	}
	return parsed.Aud
}

func byAccount(mounted string, audiences ...string) cmv1.VaultAuth {
	return cmv1.VaultAuth{Kubernetes: &cmv1.VaultKubernetesAuth{
		Path: "/v1/auth/" + mounted, Role: "certplane", ServiceAccountRef: &cmv1.ServiceAccountRef{Name: "login", TokenAudiences: audiences},
	}}
}

// Issuers log in by the token of a service account, which Vault has certplane
// review: nothing between the two is made up.
func TestKubernetes(t *testing.T) {
	eachPeer(t, func(t *testing.T, p *peer) {
		w := newWorld(t, p)
		w.account(w.namespace, "login")
		mounted := w.enableKubernetes("vault://" + w.namespace + "/vault")
		w.ready(w.issuer("vault", w.spec(byAccount(mounted, "more"))))
		if got, want := w.audiences(), []string{"more", "vault://" + w.namespace + "/vault", w.proxy.URL}; !slices.Equal(got, want) {
			t.Errorf("audiences %q, want %q", got, want)
		}
		verify(t, w.certificate("www", "vault").Data[corev1.TLSCertKey], w.root)

		// The token of another issuer is for another audience.
		other := w.issuer("other", w.spec(byAccount(mounted)))
		w.says(other, "False VaultError Failed to initialize Vault client: while requesting a Vault token using the Kubernetes auth: error calling Vault server: Error making API request.")

		// Without the right to create tokens, the message names the missing Role.
		w.create(&corev1.ServiceAccount{ObjectMeta: w.meta("unbound")})
		auth := byAccount(mounted)
		auth.Kubernetes.ServiceAccountRef.Name = "unbound"
		w.says(w.issuer("unbound", w.spec(auth)), "False VaultError Failed to initialize Vault client: while requesting a Vault token using the Kubernetes auth: "+
			"while requesting a token for the service account "+w.namespace+"/unbound: ")
		if !strings.Contains(w.readiness(w.issuerNamed("unbound")), "grant this by a Role in namespace "+w.namespace) {
			t.Error("it does not say which Role")
		}
	})
}

func (w *world) issuerNamed(name string) *cmv1.Issuer { return &cmv1.Issuer{ObjectMeta: w.meta(name)} }

// A token of a service account that stands in a Secret: once the account is
// gone, it is good for nothing.
func TestKubernetesSecret(t *testing.T) {
	eachPeer(t, func(t *testing.T, p *peer) {
		w := newWorld(t, p)
		w.create(&corev1.ServiceAccount{ObjectMeta: w.meta("login")})
		mounted := w.enableKubernetes("")
		w.secret("jwt", map[string]string{"token": w.token("login") + "\n"})
		auth := cmv1.VaultAuth{Kubernetes: &cmv1.VaultKubernetesAuth{Path: "/v1/auth/" + mounted, Role: "certplane", SecretRef: selector("jwt", "token")}}
		w.ready(w.issuer("vault", w.spec(auth)))
		verify(t, w.certificate("www", "vault").Data[corev1.TLSCertKey], w.root)

		if err := w.admin.Delete(t.Context(), &corev1.ServiceAccount{ObjectMeta: w.meta("login")}); err != nil {
			t.Fatal(err)
		}
		w.says(w.issuer("late", w.spec(auth)), "False VaultError Failed to initialize Vault client: while requesting a Vault token using the Kubernetes auth: error calling Vault server: ")
		refused := func(login call) bool { return login.Status == http.StatusForbidden }
		if logins := w.proxy.with("/login"); !slices.ContainsFunc(logins, refused) {
			t.Errorf("logins by a token of an account that is gone: %+v", logins)
		}
	})
}

// ClusterIssuers have an audience of their own.
func TestKubernetesClusterIssuer(t *testing.T) {
	eachPeer(t, func(t *testing.T, p *peer) {
		w := newWorld(t, p)
		w.account(clusterNamespace, "login")
		name := w.namespace + "-vault"
		mounted := w.enableKubernetes("vault://" + name)
		issuer := &cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: name}}
		issuer.Spec.Vault = w.spec(byAccount(mounted))
		w.create(issuer)
		w.ready(issuer)
		if got, want := w.audiences(), []string{"vault://" + name, w.proxy.URL}; !slices.Equal(got, want) {
			t.Errorf("audiences %q, want %q", got, want)
		}
		w.issued(w.request("www", name, func(cr *cmv1.CertificateRequest) { cr.Spec.IssuerRef.Kind = cmv1.ClusterIssuerKind }))
	})
}
