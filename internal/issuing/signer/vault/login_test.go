package vault_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/issuing/signer/vault"
	"github.com/certplane/certplane/internal/issuing/signer/vault/vaulttest"
)

// Each way to log in makes the calls that Vault documents, and no others.
func TestLogins(t *testing.T) {
	certificate, key := vaulttest.Pair(t, "client")
	tests := []struct {
		reason  string
		auth    vault.Auth
		login   string
		body    map[string]any
		peer    string
		account string
	}{
		{reason: "a token", auth: vault.Auth{Token: &vault.SecretKey{Name: "token"}}},
		{
			reason: "appRole", auth: vault.Auth{AppRole: &vault.AppRole{RoleID: " role-1 ", SecretID: vault.SecretKey{Name: "role", Key: "id"}}},
			login: "POST /v1/auth/approle/login", body: map[string]any{"role_id": "role-1", "secret_id": "secret-id-1"},
		},
		{
			reason: "appRole elsewhere", auth: vault.Auth{AppRole: &vault.AppRole{Mount: "my/roles", RoleID: "r", SecretID: vault.SecretKey{Name: "role", Key: "id"}}},
			login: "POST /v1/auth/my/roles/login", body: map[string]any{"role_id": "r", "secret_id": "secret-id-1"},
		},
		{
			reason: "a client certificate of its own", auth: vault.Auth{ClientCertificate: &vault.ClientCertificate{SecretName: "client"}},
			login: "POST /v1/auth/cert/login", body: map[string]any{"name": ""}, peer: "client",
		},
		{
			reason: "kubernetes with a Secret", auth: vault.Auth{Kubernetes: &vault.Kubernetes{Role: "k", JWT: vault.SecretKey{Name: "jwt"}}},
			login: "POST /v1/auth/kubernetes/login", body: map[string]any{"role": "k", "jwt": "jwt-1"},
		},
		{
			reason: "kubernetes with a service account", auth: vault.Auth{Kubernetes: &vault.Kubernetes{Role: "k", ServiceAccount: &vault.ServiceAccount{Name: "sa", Audiences: []string{"mine"}}}},
			login: "POST /v1/auth/kubernetes/login", body: map[string]any{"role": "k", "jwt": "jwt-of-sa"}, account: "sa[mine vault://ns/corp SERVER]",
		},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			w.put("client", "tls.crt", string(certificate))
			w.put("client", "tls.key", string(key))
			i := w.issuer(by(tc.auth))
			if err := w.pool.Verify(t.Context(), i, w.access()); err != nil {
				t.Fatal(err)
			}
			w.mustSign(t, i)
			want := []string{"GET /v1/sys/health", "POST /v1/pki/sign/web"}
			if tc.login != "" {
				want = append([]string{tc.login}, want...)
			}
			var got []string
			for _, c := range w.Calls() {
				got = append(got, c.String())
				if (c.Namespace == "team") != (c.Path != "/v1/sys/health") || c.Header.Get("X-Vault-Request") != "true" {
					t.Errorf("%s: headers %v", c, c.Header)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("calls (-want +got):\n%s", diff)
			}
			if tc.login != "" {
				first := w.Calls()[0]
				if diff := cmp.Diff(tc.body, first.Body); diff != "" || first.Peer != tc.peer || first.Token != "" {
					t.Errorf("login by %q with token %q (-want +got):\n%s", first.Peer, first.Token, diff)
				}
			}
			if account := strings.ReplaceAll(strings.Join(w.accounts, ","), w.URL, "SERVER"); account != tc.account {
				t.Errorf("tokens of %q", account)
			}
		})
	}
}

func TestSignBody(t *testing.T) {
	w := newWorld(t)
	o := order(t)
	if _, err := w.pool.Sign(t.Context(), w.issuer(nil), w.access(), o); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"csr": string(o.PEM), "common_name": "web", "alt_names": "a.example.com,b.example.com", "ip_sans": "10.0.0.1", "uri_sans": "",
		"ttl": "2160h0m0s", "exclude_cn_from_sans": "true",
	}
	calls := w.Calls()
	if diff := cmp.Diff(want, calls[len(calls)-1].Body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

// Users write mount paths in all of these forms.
func TestMountPaths(t *testing.T) {
	tests := []struct{ reason, mount, want string }{
		{"as documented", "/v1/auth/foo", "/v1/auth/foo/login"},
		{"without a slash", "v1/auth/foo", "/v1/auth/foo/login"},
		{"without the version", "/auth/foo", "/v1/auth/foo/login"},
		{"bare", "auth/foo", "/v1/auth/foo/login"},
		{"with a slash at the end", "/v1/auth/foo/", "/v1/auth/foo/login"},
		{"in a namespace", "/v1/team/auth/foo", "/v1/team/auth/foo/login"},
		{"nothing", "", "default"},
		{"elsewhere", "/v1/sys/foo", ""},
		{"auth itself", "/v1/auth", ""},
		{"out of it", "/v1/auth/foo/../../sys/raw", ""},
	}
	methods := map[string]func(mount string) vault.Auth{
		"/v1/auth/cert/login": func(mount string) vault.Auth {
			return vault.Auth{ClientCertificate: &vault.ClientCertificate{MountPath: mount}}
		},
		"/v1/auth/kubernetes/login": func(mount string) vault.Auth {
			return vault.Auth{Kubernetes: &vault.Kubernetes{MountPath: mount, Role: "k", JWT: vault.SecretKey{Name: "jwt"}}}
		},
		"/v1/auth/aws/login": func(mount string) vault.Auth {
			return vault.Auth{AWS: &vault.AWS{MountPath: mount, Role: "r", IAMRoleARN: "arn", ServiceAccount: &vault.ServiceAccount{Name: "sa"}}}
		},
	}
	for standard, auth := range methods {
		for _, tc := range tests {
			t.Run(standard+" "+tc.reason, func(t *testing.T) {
				w := awsWorld(t)
				err := w.pool.Verify(t.Context(), w.issuer(by(auth(tc.mount))), w.access())
				want := strings.ReplaceAll(tc.want, "default", standard)
				if want == "" {
					if kind(err) != "init" || len(w.Calls()) > 0 {
						t.Errorf("error %v, calls %v", err, w.Calls())
					}
					return
				}
				if err != nil || w.Calls()[0].Path != want {
					t.Errorf("error %v, calls %v", err, w.Calls())
				}
			})
		}
	}
}

// What the library of other clients reads from the environment has no effect.
func TestEnvironment(t *testing.T) {
	for _, name := range []string{"AGENT_ADDR", "ADDR", "SKIP_VERIFY", "CACERT", "CAPATH", "CLIENT_CERT", "CLIENT_KEY", "TLS_SERVER_NAME", "CLIENT_TIMEOUT",
		"MAX_RETRIES", "RATE_LIMIT", "PROXY_ADDR", "HTTP_PROXY", "SRV_LOOKUP", "TOKEN", "NAMESPACE", "HEADERS", "WRAP_TTL"} {
		t.Setenv("VAULT_"+name, "http://127.0.0.1:1/nonsense")
	}
	w := newWorld(t)
	w.mustSign(t, w.issuer(func(i *vault.Issuer) { i.VaultNamespace = "" }))
	for _, c := range w.Calls() {
		if c.Namespace != "" || c.Header.Get("X-Vault-Wrap-TTL") != "" {
			t.Errorf("%s with %v", c, c.Header)
		}
	}
}

// The credentials of a Secret that has changed are used for the next call.
func TestRotation(t *testing.T) {
	certificate, key := vaulttest.Pair(t, "first")
	w := newWorld(t)
	w.put("client", "tls.crt", string(certificate))
	w.put("client", "tls.key", string(key))
	w.put("ca", "ca.crt", string(w.Bundle()))
	i := w.issuer(func(i *vault.Issuer) {
		i.CABundle, i.CABundleRef = nil, &vault.SecretKey{Name: "ca"}
		i.ClientCertRef, i.ClientKeyRef = &vault.SecretKey{Name: "client"}, &vault.SecretKey{Name: "client"}
	})
	w.mustSign(t, i)
	certificate, key = vaulttest.Pair(t, "second")
	w.put("client", "tls.crt", string(certificate))
	w.put("client", "tls.key", string(key))
	w.mustSign(t, i)
	if peers := w.peers("/sign/"); !slices.Equal(peers, []string{"first", "second"}) {
		t.Errorf("client certificates %q", peers)
	}
	other, _ := vaulttest.Pair(t, "another CA")
	w.put("ca", "ca.crt", string(other))
	if _, err := w.sign(t, i); kind(err) != "init" || !strings.Contains(err.Error(), "certificate signed by unknown authority") {
		t.Errorf("with another CA: %v", err)
	}
	w.put("ca", "ca.crt", string(w.Bundle()))
	w.mustSign(t, i)
	w.put("role", "id", "secret-id-2")
	w.mustSign(t, i)
	if id := w.Calls()[w.lastLogin()].Body["secret_id"]; id != "secret-id-2" {
		t.Errorf("logged in with %v", id)
	}
}

// peers are the names in the client certificates of the calls of a path.
func (w *world) peers(path string) []string {
	var peers []string
	for _, c := range w.Calls() {
		if strings.Contains(c.Path, path) {
			peers = append(peers, c.Peer)
		}
	}
	return peers
}

func (w *world) lastLogin() int {
	last := -1
	for n, c := range w.Calls() {
		if strings.HasSuffix(c.Path, "/login") {
			last = n
		}
	}
	return last
}

// The texts are those that clients of cert-manager.io know.
func TestGatherErrors(t *testing.T) {
	pair := func(i *vault.Issuer) {
		i.ClientCertRef, i.ClientKeyRef = &vault.SecretKey{Name: "token"}, &vault.SecretKey{Name: "none"}
	}
	tests := []struct {
		reason string
		change func(*vault.Issuer)
		want   string
	}{
		{"no token", by(vault.Auth{Token: &vault.SecretKey{Name: "none"}}), `secrets "none" not found`},
		{"no key with a token", by(vault.Auth{Token: &vault.SecretKey{Name: "token", Key: "x"}}), `no data for "x" in secret 'ns/token'`},
		{"a token of two lines", by(vault.Auth{Token: &vault.SecretKey{Name: "lines"}}), "configured Vault token contains non-printable characters and cannot be used"},
		{"no secret id", by(vault.Auth{AppRole: &vault.AppRole{SecretID: vault.SecretKey{Name: "role", Key: "x"}}}), `no data for "x" in secret 'ns/role'`},
		{"no JWT", by(vault.Auth{Kubernetes: &vault.Kubernetes{JWT: vault.SecretKey{Name: "none"}}}), `while requesting a Vault token using the Kubernetes auth: secrets "none" not found`},
		{"no certificate", by(vault.Auth{ClientCertificate: &vault.ClientCertificate{SecretName: "role"}}), "no data for tls.crt in secret 'ns/role'"},
		{"a broken certificate", by(vault.Auth{ClientCertificate: &vault.ClientCertificate{SecretName: "broken"}}), "error reading client certificate: tls: failed to find any PEM data in certificate input"},
		{"credentials of the machine", by(vault.Auth{AWS: &vault.AWS{Role: "r"}}),
			"while requesting a Vault token using the AWS auth: cannot authenticate to Vault using ambient AWS credentials: set auth.aws.serviceAccountRef, or enable ambient credentials via --issuer-ambient-credentials / --cluster-issuer-ambient-credentials"},
		{"a region that is a host", by(vault.Auth{AWS: &vault.AWS{Role: "r", Region: "x.example.com/", ServiceAccount: &vault.ServiceAccount{Name: "sa"}}}),
			`while requesting a Vault token using the AWS auth: region "x.example.com/" is not the name of a region`},
		{"no login", by(vault.Auth{}),
			"error initializing Vault client: unable to load credentials. One of: tokenSecretRef, appRoleSecretRef, clientCertificate, Kubernetes, or AWS auth must be set"},
		{"no Secret with the CA", func(i *vault.Issuer) { i.CABundle, i.CABundleRef = nil, &vault.SecretKey{Name: "none"} },
			`failed to load vault CA bundle: could not access secret 'ns/none': secrets "none" not found`},
		{"no CA in its Secret", func(i *vault.Issuer) { i.CABundle, i.CABundleRef = nil, &vault.SecretKey{Name: "token", Key: "token"} },
			"no Vault CA bundles loaded, check bundle contents"},
		{"no Secret with the client key", pair, `failed to load vault client certificate: no data for "tls.crt" in Secret 'ns/token'`},
		{"no URL", func(i *vault.Issuer) { i.Server = "vault.example.com" }, "error initializing Vault client: the server must begin with https:// or http://"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			w.put("lines", "token", "hvs.one\nhvs.two")
			w.put("broken", "tls.crt", "x")
			w.put("broken", "tls.key", "x")
			_, err := w.sign(t, w.issuer(tc.change))
			if kind(err) != "init" || vault.Text(err) != tc.want || len(w.Calls()) > 0 {
				t.Errorf("%s error %v; want %s; calls %v", kind(err), err, tc.want, w.Calls())
			}
		})
	}
}
