package authn_test

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

// revokedAt is when these tests revoke.
var revokedAt = time.Now().Add(-time.Minute).UTC().Truncate(time.Second)

// revoke revokes certificates because of their keys.
func revoke(t *testing.T, s *apitest.Server, certs ...*x509.Certificate) {
	t.Helper()
	s.Revoke(t, pki.ReasonKeyCompromise, revokedAt, certs...)
}

// leafOf returns the client certificate of a configuration.
func leafOf(t *testing.T, cfg *rest.Config) *x509.Certificate {
	t.Helper()
	cert, err := pki.ParseFirst(cfg.CertData)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// alone returns the configuration with connections of its own.
func alone(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Dial = (&net.Dialer{}).DialContext
	return cfg
}

// wantRefused waits until the server refuses a client, and checks what it says about the
// revoked certificate.
func wantRefused(t *testing.T, cfg *rest.Config, revoked *x509.Certificate) {
	t.Helper()
	var err error
	apitest.Eventually(t, "the client is refused", func() bool { _, err = whoami(t, alone(cfg)); return apierrors.IsUnauthorized(err) })
	which := "client"
	if revoked.IsCA {
		which = "CA"
	}
	want := fmt.Sprintf("the %s certificate with serial number %s was revoked on %s: KeyCompromise", which, revoked.SerialNumber.Text(16), revokedAt.Format(time.RFC3339))
	if err.Error() != want {
		t.Errorf("the server says %q, want %q", err, want)
	}
}

// otherForm returns a configuration with another signature of its certificate, which everybody
// can make who has the certificate.
func otherForm(t *testing.T, cfg *rest.Config) *rest.Config {
	t.Helper()
	chain, err := pki.ParseBundle(cfg.CertData)
	if err != nil {
		t.Fatal(err)
	}
	other, ok := pki.OtherForm(chain[0])
	if !ok {
		t.Fatal("the certificate has no other form")
	}
	cfg = rest.CopyConfig(cfg)
	cfg.CertData = append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other}), pki.EncodeCertificates(chain[1:]...)...)
	return cfg
}

func wantUser(t *testing.T, cfg *rest.Config, want string) {
	t.Helper()
	if user, err := whoami(t, alone(cfg)); err != nil || user.Username != want {
		t.Errorf("the user is %q, error %v, want %q", user.Username, err, want)
	}
}

// A client with a revoked certificate is refused whatever else it presents; others are not.
func TestRevokedClients(t *testing.T) {
	root, proxies := newRoot(t, "own root"), newRoot(t, "proxies")
	log := filepath.Join(t.TempDir(), "audit.log")
	s := apitest.Start(t, func(c *server.Config) {
		c.Authentication.ClientCAFile = writeFile(t, bundle(root))
		c.Authentication.RequestHeader.CAFile = writeFile(t, bundle(proxies))
		c.Audit.Log.Path = log
	})
	of := func(ca *pki.Authority, name string, groups ...string) *rest.Config {
		cert, key := certify(t, ca, name, groups...)
		return s.LoginWith(t, cert, key)
	}
	ann, again := s.Login(t, "ann"), s.Login(t, "ann")
	wantUser(t, ann, "ann")
	revoke(t, s, leafOf(t, ann))
	wantRefused(t, ann, leafOf(t, ann))
	wantUser(t, again, "ann")

	t.Run("a valid token beside it", func(t *testing.T) {
		w := newWorld(t, s)
		both := bearer(t, s, w.token(t, authenticationv1.TokenRequestSpec{}))
		wantUser(t, both, "system:serviceaccount:"+w.namespace+":builder")
		both.CertData, both.KeyData = ann.CertData, ann.KeyData
		wantRefused(t, both, leafOf(t, ann))
	})
	t.Run("a path without credentials", func(t *testing.T) {
		if err := get(t, alone(ann), "/livez", nil); !apierrors.IsUnauthorized(err) {
			t.Errorf("answered with %v", err)
		}
	})
	t.Run("the other form of its signature", func(t *testing.T) {
		wantUser(t, otherForm(t, again), "ann")
		wantRefused(t, otherForm(t, ann), leafOf(t, ann))
	})
	t.Run("an administrator", func(t *testing.T) {
		admin := s.Login(t, "root", "system:masters")
		wantUser(t, admin, "root")
		revoke(t, s, leafOf(t, admin))
		wantRefused(t, admin, leafOf(t, admin))
	})
	t.Run("a front proxy", func(t *testing.T) {
		proxy := withHeaders(of(proxies, "proxy"), http.Header{"X-Remote-User": {"bob"}})
		other := withHeaders(of(proxies, "proxy"), http.Header{"X-Remote-User": {"bob"}})
		wantUser(t, proxy, "bob")
		revoke(t, s, leafOf(t, proxy))
		wantRefused(t, proxy, leafOf(t, proxy))
		wantUser(t, other, "bob")
	})
	t.Run("an intermediate that it presents", func(t *testing.T) {
		below := newIntermediate(t, root, "below")
		user, other := of(below, "carl"), of(root, "dora")
		wantUser(t, user, "carl")
		revoke(t, s, below.Certificate())
		wantRefused(t, user, below.Certificate())
		wantUser(t, other, "dora")
	})
	t.Run("a root that it does not present", func(t *testing.T) {
		user := of(root, "dora")
		wantUser(t, user, "dora")
		revoke(t, s, root.Certificate())
		wantRefused(t, user, root.Certificate())
		wantUser(t, again, "ann")
	})
	t.Run("audit", func(t *testing.T) {
		data, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf(`"revocation.certplane.dev/refused":"%s"`, pki.Fingerprint(leafOf(t, ann))[:32]); !strings.Contains(string(data), want) {
			t.Errorf("no record has %s", want)
		}
	})
	t.Run("after a restart", func(t *testing.T) {
		s.Restart(t)
		ann.Host = s.URL
		if _, err := whoami(t, alone(ann)); !apierrors.IsUnauthorized(err) {
			t.Errorf("the first request is answered with %v", err)
		}
	})
}

// newIntermediate returns a CA below another one.
func newIntermediate(t *testing.T, root *pki.Authority, name string) *pki.Authority {
	t.Helper()
	ca, err := root.NewIntermediate(pki.UnrecordedSigning, name, apitest.NewKey(t), time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// Watches have no next request that could be refused: their connections are closed.
func TestConnectionsOfRevokedClientsEnd(t *testing.T) {
	s := apitest.Start(t)
	const clients = 60
	var watches [clients]watch.Interface
	var certs []*x509.Certificate
	for n := range watches {
		cfg := alone(s.Login(t, fmt.Sprint("watcher-", n), "system:masters"))
		var err error
		if watches[n], err = apitest.Client(t, cfg).CoreV1().Namespaces().Watch(t.Context(), metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		if n%2 == 0 {
			certs = append(certs, leafOf(t, cfg))
		}
	}
	revoke(t, s, certs...)
	stopwatch, deadline := apitest.StartStopwatch(t), time.After(3*time.Minute)
	for n := 0; n < clients; n += 2 {
		for open := true; open; {
			select {
			case _, open = <-watches[n].ResultChan():
			case <-deadline:
				t.Fatalf("watch %d goes on", n)
			}
		}
	}
	if took := stopwatch.Elapsed(); took > time.Second {
		t.Errorf("the watches have ended after %v", took)
	}
	if _, err := apitest.Client(t, s.Admin(t)).CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "after"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for n := 1; n < clients; n += 2 {
		for {
			event, open := <-watches[n].ResultChan()
			if !open {
				t.Fatalf("watch %d has ended", n)
			}
			if at, ok := event.Object.(metav1.Object); ok && at.GetName() == "after" {
				break
			}
		}
	}
}
