package vault

import (
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
)

// An issuer logs in by a role, and the Secret of a Certificate has the chain and
// the CA.
func TestAppRole(t *testing.T) {
	eachPeer(t, func(t *testing.T, p *peer) {
		w := newWorld(t, p)
		w.roleIssuer("vault")
		secret := w.certificate("www", "vault")
		certs := verify(t, secret.Data[corev1.TLSCertKey], w.root)
		if len(certs) != 1 || certs[0].VerifyHostname("www.example.com") != nil || !parse(t, string(secret.Data["ca.crt"])).Equal(w.root) {
			t.Errorf("%d certificates for %v, CA %q", len(certs), certs[0].DNSNames, secret.Data["ca.crt"])
		}
		if logins := w.proxy.with("/login"); len(logins) != 1 {
			t.Errorf("%d logins", len(logins))
		}
	})
}

// A token from a Secret is neither renewed nor revoked.
func TestToken(t *testing.T) {
	eachPeer(t, func(t *testing.T, p *peer) {
		w := newWorld(t, p)
		var made struct {
			Auth struct {
				Token string `json:"client_token"`
			}
		}
		p.must(t, "POST", "auth/token/create", map[string]any{"policies": []string{w.policy}, "ttl": "1h"}, &made)
		w.secret("token", map[string]string{"token": made.Auth.Token + "\n"})
		ref := selector("token", "")
		issuer := w.issuer("vault", w.spec(cmv1.VaultAuth{TokenSecretRef: &ref}))
		w.ready(issuer)
		verify(t, w.certificate("www", "vault").Data[corev1.TLSCertKey], w.root)
		if calls := w.proxy.with("/auth/"); len(calls) > 0 {
			t.Errorf("calls about the token: %+v", calls)
		}
	})
}
