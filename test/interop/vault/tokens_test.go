package vault

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/certplane/certplane/internal/apitest"
)

// tokensOf returns how many tokens of a role there are.
func (w *world) tokensOf() (accessors []string) {
	w.t.Helper()
	var list struct{ Data struct{ Keys []string } }
	w.peer.must(w.t, "LIST", "auth/token/accessors", nil, &list)
	for _, accessor := range list.Data.Keys {
		var found struct {
			Data struct {
				Path     string
				Policies []string
			}
		}
		if _, err := w.peer.call(http.MethodPost, "auth/token/lookup-accessor", map[string]any{"accessor": accessor}, &found); err != nil {
			continue // it has ended meanwhile
		}
		if strings.HasPrefix(found.Data.Path, "auth/"+w.approle+"/") {
			accessors = append(accessors, accessor)
		}
	}
	return accessors
}

func (w *world) revokeAll() {
	w.t.Helper()
	for _, accessor := range w.tokensOf() {
		w.peer.write(w.t, "auth/token/revoke-accessor", map[string]any{"accessor": accessor})
	}
}

// Many requests share one login. When the process ends, Vault has no token of it.
func TestLeases(t *testing.T) {
	eachPeer(t, func(t *testing.T, p *peer) {
		many := 200
		if testing.Short() {
			many = 20
		}
		w := worldAt(t, p, apitest.Start(t, loopback))
		w.roleIssuer("vault")
		var all []*cmv1.CertificateRequest
		for i := range many {
			all = append(all, w.request(fmt.Sprintf("n%d", i), "vault"))
		}
		for _, cr := range all {
			w.issued(cr)
		}
		if logins, tokens := len(w.proxy.with("/login")), len(w.tokensOf()); logins > 2 || tokens > 2 {
			t.Errorf("%d logins and %d tokens for %d requests", logins, tokens, many)
		}
		if signed := len(w.proxy.with("/sign/web")); signed != many {
			t.Errorf("%d calls for %d requests", signed, many)
		}
		w.Stop(t)
		if left := w.tokensOf(); len(left) > 0 {
			t.Errorf("%d tokens are left", len(left))
		}
	})
}

// A token that was revoked costs one refused call and one login. Without the
// right to sign, the request fails, after one more login.
func TestRevoked(t *testing.T) {
	eachPeer(t, func(t *testing.T, p *peer) {
		w := newWorld(t, p)
		w.roleIssuer("vault")
		w.issued(w.request("first", "vault"))
		w.revokeAll()
		w.proxy.forget()
		w.issued(w.request("second", "vault"))
		w.wantCalls(1, http.StatusForbidden, http.StatusOK)

		w.allow(`path "` + w.pki + `/none" { capabilities = ["update"] }`)
		w.proxy.forget()
		state := w.becomes(w.request("third", "vault"), "Failed ")
		if !strings.Contains(state, "Code: 403. Errors:") || !strings.Contains(state, "permission denied") {
			t.Errorf("%q", state)
		}
		w.wantCalls(1, http.StatusForbidden, http.StatusForbidden)
	})
}

// wantCalls compares the logins and the answers to signing since the last forget.
func (w *world) wantCalls(logins int, signed ...int) {
	w.t.Helper()
	var got []int
	for _, c := range w.proxy.with("/sign/web") {
		got = append(got, c.Status)
	}
	if fmt.Sprint(got) != fmt.Sprint(signed) || len(w.proxy.with("/login")) != logins {
		w.t.Errorf("%d logins and answers %v, want %d and %v", len(w.proxy.with("/login")), got, logins, signed)
	}
}

// A token that ends after seconds is renewed or replaced. As tokens are kept for
// ten seconds at least, the last call of one may be refused; it is repeated.
func TestExpiry(t *testing.T) {
	eachPeer(t, func(t *testing.T, p *peer) {
		w := newWorld(t, p)
		w.newRole(map[string]any{"token_ttl": "15s", "token_max_ttl": "20s"})
		w.roleIssuer("vault")
		end := time.Now().Add(30 * time.Second)
		if testing.Short() {
			end = time.Now()
		}
		for i := 0; ; i++ {
			w.issued(w.request(fmt.Sprintf("n%d", i), "vault"))
			if time.Now().After(end) {
				break
			}
		}
		refused, logins, renewals := 0, len(w.proxy.with("/login")), len(w.proxy.with("/renew-self"))
		for _, c := range w.proxy.with("/sign/web") {
			if c.Status != http.StatusOK {
				refused++
			}
		}
		if refused > logins || logins > 5 || !testing.Short() && (logins < 2 || renewals == 0) {
			t.Errorf("%d calls refused, %d logins, %d renewals", refused, logins, renewals)
		}
	})
}

// A used-up secret id does not fail the request: it waits, and continues as soon as there
// is another secret id.
func TestSecretIDUsedUp(t *testing.T) {
	eachPeer(t, func(t *testing.T, p *peer) {
		w := newWorld(t, p)
		w.newRole(map[string]any{"token_ttl": "1h", "secret_id_num_uses": 1})
		w.roleIssuer("vault")
		w.revokeAll()
		cr := w.request("www", "vault")
		state := w.becomes(cr, "Pending Failed to initialise vault client for signing: ")
		if !strings.Contains(state, "invalid role or secret ID") {
			t.Errorf("%q", state)
		}
		secret := &corev1.Secret{ObjectMeta: w.meta("vault-login")}
		w.change(secret, func() { secret.Data = map[string][]byte{"secretId": []byte(w.secretID())} })
		begin := time.Now()
		w.issued(cr)
		t.Logf("went on after %v", time.Since(begin))
	})
}

// Each Secret that an issuer names can come later.
func TestMissingSecrets(t *testing.T) {
	eachPeer(t, func(t *testing.T, p *peer) {
		w := newWorld(t, p)
		login := map[string]string{"secretId": w.secretID()}
		issuer := w.issuer("login", w.spec(w.byRole("late-login")))
		w.says(issuer, `False VaultError Failed to initialize Vault client: secrets "late-login" not found`)
		w.secret("late-login", login)
		w.ready(issuer)

		w.secret("there", login)
		spec := w.spec(w.byRole("there"))
		ref := selector("late-ca", "")
		spec.CABundle, spec.CABundleSecretRef = nil, &ref
		issuer = w.issuer("bundle", spec)
		w.says(issuer, "False VaultError Failed to initialize Vault client: failed to load vault CA bundle: could not access secret '"+w.namespace+"/late-ca': ")
		w.secret("late-ca", map[string]string{"ca.crt": string(w.proxy.bundle)})
		w.ready(issuer)

		// The Secret goes away under a ready issuer, and a request waits for it.
		if err := w.admin.Delete(t.Context(), &corev1.Secret{ObjectMeta: w.meta("there")}); err != nil {
			t.Fatal(err)
		}
		cr := w.request("www", "bundle")
		w.becomes(cr, "Pending ")
		w.secret("there", login)
		w.issued(cr)
	})
}

// All ways to write a mount path lead to the same login.
func TestMountPaths(t *testing.T) {
	eachPeer(t, func(t *testing.T, p *peer) {
		w := newWorld(t, p)
		w.account(w.namespace, "login")
		mounted := w.enableKubernetes("")
		for i, path := range []string{"/v1/auth/" + mounted, "v1/auth/" + mounted, "/auth/" + mounted, "auth/" + mounted, "/v1/auth/" + mounted + "/"} {
			auth := byAccount(mounted)
			auth.Kubernetes.Path = path
			w.ready(w.issuer(fmt.Sprintf("path%d", i), w.spec(auth)))
		}
		for _, c := range w.proxy.with("/login") {
			if c.Path != "/v1/auth/"+mounted+"/login" || c.Method != http.MethodPost {
				t.Errorf("%s %s", c.Method, c.Path)
			}
		}
	})
}

// A client certificate logs in, and every connection has the one of the server's
// own. Both, and the CA of the server, can be replaced without a restart.
func TestClientCertificates(t *testing.T) {
	sharedVault(t)
	first, firstKey := clientCertificate(t, "first.example.com")
	p := ownVault(t)
	w := newWorld(t, p)
	mounted := p.enable(t, "auth", "cert")
	allow := func(certificate []byte) {
		p.write(t, "auth/"+mounted+"/certs/certplane", map[string]any{"certificate": string(certificate), "token_policies": w.policy, "token_ttl": "1h"})
	}
	allow(first)
	// The proxy would end the connection with the certificate.
	spec := func(auth cmv1.VaultClientCertificateAuth) *cmv1.VaultIssuer {
		auth.Path = "/v1/auth/" + mounted
		return &cmv1.VaultIssuer{Server: p.url, CABundle: p.bundle, Path: w.pki + "/sign/web", Auth: cmv1.VaultAuth{ClientCertificate: &auth}}
	}
	secret := w.secret("client", map[string]string{"tls.crt": string(first), "tls.key": string(firstKey)})
	w.ready(w.issuer("vault", spec(cmv1.VaultClientCertificateAuth{SecretName: "client", Name: "certplane"})))
	w.issued(w.request("www", "vault"))
	anyRole := w.issuer("anyrole", spec(cmv1.VaultClientCertificateAuth{SecretName: "client"}))
	w.ready(anyRole)
	connection := spec(cmv1.VaultClientCertificateAuth{Name: "certplane"})
	cert, key := selector("client", ""), selector("client", "")
	connection.ClientCertSecretRef, connection.ClientKeySecretRef = &cert, &key
	w.ready(w.issuer("connection", connection))
	w.issued(w.request("connection", "connection"))

	// Another certificate: the old one is refused from now on.
	second, secondKey := clientCertificate(t, "second.example.com")
	allow(second)
	w.change(secret, func() { secret.Data = map[string][]byte{"tls.crt": second, "tls.key": secondKey} })
	w.issued(w.request("rotated", "vault"))
	w.issued(w.request("rotated2", "connection"))

	stranger, strangerKey := clientCertificate(t, "third.example.com")
	w.secret("stranger", map[string]string{"tls.crt": string(stranger), "tls.key": string(strangerKey)})
	w.says(w.issuer("stranger", spec(cmv1.VaultClientCertificateAuth{SecretName: "stranger", Name: "certplane"})),
		"False VaultError Failed to initialize Vault client: error calling Vault server: ")
}

// A server that demands a client certificate of everybody.
func TestMutualTLS(t *testing.T) {
	dir := t.TempDir()
	client, key := clientCertificate(t, "client.example.com")
	file := dir + "/clients.crt"
	write(t, file, client)
	p := mutualVault(t, dir, file, client, key)
	w := newWorld(t, p)
	w.secret("client", map[string]string{"tls.crt": string(client), "tls.key": string(key)})
	w.secret("login", map[string]string{"secretId": w.secretID()})
	spec := w.spec(w.byRole("login"))
	spec.Server, spec.CABundle = p.url, p.bundle
	without := spec.DeepCopy()
	ref, keyRef := selector("client", "tls.crt"), selector("client", "tls.key")
	spec.ClientCertSecretRef, spec.ClientKeySecretRef = &ref, &keyRef
	w.ready(w.issuer("vault", spec))
	w.issued(w.request("www", "vault"))
	w.says(w.issuer("without", without), "False VaultError Failed to initialize Vault client: error logging in to Vault server: ")
}

// The CA of the server's certificate is replaced in its Secret.
func TestNewBundle(t *testing.T) {
	eachPeer(t, func(t *testing.T, p *peer) {
		w := newWorld(t, p)
		w.secret("login", map[string]string{"secretId": w.secretID()})
		bundle := w.secret("ca", map[string]string{"ca.crt": string(w.proxy.bundle)})
		spec := w.spec(w.byRole("login"))
		ref := selector("ca", "")
		spec.CABundle, spec.CABundleSecretRef = nil, &ref
		issuer := w.issuer("vault", spec)
		w.ready(issuer)
		other, _ := serverCertificate(t, "127.0.0.1")
		w.change(bundle, func() { bundle.Data = map[string][]byte{"ca.crt": other} })
		cr := w.request("www", "vault")
		state := w.becomes(cr, "Pending ")
		t.Logf("with the wrong CA: %s", state)
		w.change(bundle, func() { bundle.Data = map[string][]byte{"ca.crt": append(other, w.proxy.bundle...)} })
		w.issued(cr)
		w.ready(issuer)
	})
}

// A quota is honoured: a request waits as long as the server says, and is issued
// then.
func TestQuota(t *testing.T) {
	p := ownVault(t)
	w := newWorld(t, p)
	w.roleIssuer("vault")
	p.write(t, "sys/quotas/config", map[string]any{"enable_rate_limit_response_headers": true})
	p.write(t, "sys/quotas/rate-limit/pki", map[string]any{"path": w.pki, "rate": 1, "interval": "15s"})
	w.proxy.forget()
	first, second := w.request("first", "vault"), w.request("second", "vault")
	for _, cr := range []*cmv1.CertificateRequest{first, second} {
		w.issued(cr)
	}
	refused, signed := 0, 0
	for _, c := range w.proxy.with("/sign/web") {
		switch c.Status {
		case http.StatusTooManyRequests:
			refused++
		case http.StatusOK:
			signed++
		default:
			t.Errorf("status %d", c.Status)
		}
	}
	if refused == 0 || refused > 3 || signed != 2 {
		t.Errorf("%d refused, %d signed", refused, signed)
	}
	if found := w.events(second); len(found) == 0 {
		t.Error("no Events")
	}
}
