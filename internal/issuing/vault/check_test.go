package vault_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/signer/vault/vaulttest"
)

func TestConfiguration(t *testing.T) {
	auth := func(auth cmv1.VaultAuth) func(*cmv1.VaultIssuer) {
		return func(v *cmv1.VaultIssuer) { v.Auth = auth }
	}
	none, some := cmmeta.SecretKeySelector{}, selector("role", "id")
	account := &cmv1.ServiceAccountRef{Name: "sa"}
	tests := []struct {
		reason string
		change func(*cmv1.VaultIssuer)
		want   string
	}{
		{"no server", func(v *cmv1.VaultIssuer) { v.Server, v.Auth = "", cmv1.VaultAuth{} }, "Vault server and path are required fields"},
		{"no path", func(v *cmv1.VaultIssuer) { v.Path = "" }, "Vault server and path are required fields"},
		{"no login", auth(cmv1.VaultAuth{}), "Vault tokenSecretRef, appRole, clientCertificate, kubernetes, or aws is required"},
		{"two logins, and one is incomplete", auth(cmv1.VaultAuth{TokenSecretRef: &none, AppRole: &cmv1.VaultAppRole{}}), "Multiple auth methods cannot be set on the same Vault issuer"},
		{"a token without a Secret", auth(cmv1.VaultAuth{TokenSecretRef: &none}), "Vault Token auth requires tokenSecretRef.name"},
		{"appRole without a role", auth(cmv1.VaultAuth{AppRole: &cmv1.VaultAppRole{SecretRef: some}}), "Vault AppRole auth requires both roleId and tokenSecretRef.name"},
		{"appRole without a Secret", auth(cmv1.VaultAuth{AppRole: &cmv1.VaultAppRole{RoleId: "r"}}), "Vault AppRole auth requires both roleId and tokenSecretRef.name"},
		{"appRole without a key", auth(cmv1.VaultAuth{AppRole: &cmv1.VaultAppRole{RoleId: "r", SecretRef: selector("role", "")}}), "Vault AppRole auth requires secretRef.key"},
		{"kubernetes without all", auth(cmv1.VaultAuth{Kubernetes: &cmv1.VaultKubernetesAuth{}}), "Vault Kubernetes auth requires a role to be set"},
		{"kubernetes with a role", auth(cmv1.VaultAuth{Kubernetes: &cmv1.VaultKubernetesAuth{Role: "k"}}), "Vault Kubernetes auth requires either secretRef.name or serviceAccountRef.name to be set"},
		{"kubernetes with both", auth(cmv1.VaultAuth{Kubernetes: &cmv1.VaultKubernetesAuth{Role: "k", SecretRef: some, ServiceAccountRef: account}}), "Vault Kubernetes auth cannot be used with both secretRef.name and serviceAccountRef.name"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			ready := w.check(t, w.issuer(tc.change))
			if ready.OK || ready.Reason != "VaultError" || ready.Message != tc.want || ready.Retry != nil || len(w.Calls()) > 0 {
				t.Errorf("%+v, want %s", ready, tc.want)
			}
			if _, err := w.sign(t, w.issuer(tc.change), w.certificateRequest(t, nil)); !strings.HasPrefix(w.verdict(err), "Watched VaultInitError ") {
				t.Errorf("signing: %s", w.verdict(err))
			}
		})
	}
}

func TestReady(t *testing.T) {
	tests := []struct {
		reason string
		change func(*cmv1.VaultIssuer)
		before func(*world)
		want   string
	}{
		{reason: "all is well", want: "true VaultVerified Vault verified"},
		{reason: "the login is refused", before: func(w *world) {
			w.With(func(s *vaulttest.State) { s.LoginError = "invalid role or secret ID" })
		}, want: "false VaultError Failed to initialize Vault client: error logging in to Vault server: Error making API request.\n\nURL: POST SERVER/v1/auth/approle/login\nCode: 400. Errors:\n\n* invalid role or secret ID"},
		{reason: "a Secret is missing", change: func(v *cmv1.VaultIssuer) { v.Auth.AppRole.SecretRef.Name = "none" },
			want: `false VaultError Failed to initialize Vault client: secrets "none" not found`},
		{reason: "sealed since the login", before: func(w *world) {
			w.With(func(s *vaulttest.State) {
				s.Answer = func(rw http.ResponseWriter, _ *http.Request, c vaulttest.Call) bool {
					if c.Path == "/v1/sys/health" {
						rw.WriteHeader(http.StatusServiceUnavailable)
					}
					return c.Path == "/v1/sys/health"
				}
			})
		}, want: "false VaultError Failed to verify Vault is initialized and unsealed: Vault is sealed"},
		{reason: "no right to get tokens", change: byAccount, before: func(w *world) { w.forbidden = true },
			want: `false VaultError Failed to initialize Vault client: while requesting a Vault token using the Kubernetes auth: while requesting a token for the service account ns/sa: serviceaccounts/token "sa" is forbidden: User "us" cannot create resource: grant this by a Role in namespace ns with the rule {apiGroups: [""], resources: [serviceaccounts/token], resourceNames: [sa], verbs: [create]}, bound to that user`},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			if tc.before != nil {
				tc.before(w)
			}
			ready := w.check(t, w.issuer(tc.change))
			got := strings.ReplaceAll(map[bool]string{true: "true ", false: "false "}[ready.OK]+ready.Reason+" "+ready.Message, w.URL, "SERVER")
			if got != tc.want || ready.OK && ready.Retry != nil || (ready.Retry != nil) != ready.Again.IsZero() {
				t.Errorf("%s (retry %v, again %v)\nwant %s", got, ready.Retry, ready.Again, tc.want)
			}
		})
	}
}

func TestAudiences(t *testing.T) {
	w := newWorld(t)
	i := w.issuer(byAccount)
	cluster := &cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: "corp", UID: "uid-2"}, Spec: i.Spec}
	w.check(t, i)
	w.check(t, cluster)
	want := []string{
		"token of ns/sa for [mine vault://ns/corp " + w.URL + "], 600s",
		"token of cluster/sa for [mine vault://corp " + w.URL + "], 600s",
	}
	if !slices.Equal(w.tokens, want) {
		t.Errorf("tokens %q, want %q", w.tokens, want)
	}
}

// A server that is away for a moment does not make its issuers unready.
func TestFlap(t *testing.T) {
	w := newWorld(t)
	i := w.issuer(nil)
	if !w.check(t, i).OK {
		t.Fatal("not ready")
	}
	i.Status.Conditions = []cmv1.IssuerCondition{{Type: cmv1.IssuerConditionReady, Status: cmmeta.ConditionTrue, Reason: "VaultVerified", ObservedGeneration: 1}}
	w.With(func(s *vaulttest.State) { s.Health = http.StatusServiceUnavailable })
	begin := w.clock.Now()
	for ready := w.check(t, i); ready.OK; ready = w.check(t, i) {
		if ready.Again.Sub(w.clock.Now()) > 10*time.Second || w.clock.Since(begin) > 30*time.Second {
			t.Fatalf("again at %v", ready.Again)
		}
		w.clock.SetTime(ready.Again)
	}
	if took := w.clock.Since(begin); took < 30*time.Second {
		t.Errorf("not ready after %v", took)
	}
	w.With(func(s *vaulttest.State) { s.Health = 0 })
	if ready := w.check(t, i); !ready.OK || ready.Again.Sub(w.clock.Now()) < 4*time.Minute {
		t.Errorf("ready %+v", ready)
	}
	w.With(func(s *vaulttest.State) { s.Health = http.StatusServiceUnavailable })
	if !w.check(t, i).OK {
		t.Error("the second time counts from the first")
	}
	i.Generation = 2
	if w.check(t, i).OK {
		t.Error("a new spec is ready because the old one was")
	}
}

func TestNeeds(t *testing.T) {
	w := newWorld(t)
	i := w.issuer(func(v *cmv1.VaultIssuer) {
		ca, cert, key := selector("ca", ""), selector("client", ""), selector("client-key", "")
		v.CABundle, v.CABundleSecretRef, v.ClientCertSecretRef, v.ClientKeySecretRef = nil, &ca, &cert, &key
		v.Auth.ClientCertificate = &cmv1.VaultClientCertificateAuth{SecretName: "login"}
	})
	var names []string
	for _, need := range w.Needs(i, issuing.Request{}) {
		if need.Kind.Kind == "Secret" && need.Namespace == "ns" {
			names = append(names, need.Name)
		}
	}
	if want := []string{"ca", "client", "client-key", "role", "login"}; !slices.Equal(names, want) {
		t.Errorf("Secrets %v, want %v", names, want)
	}
}

// That a server is back is found out soon after a short outage, and without many
// calls during a long one. Nobody else asks: requests wait for the issuer.
func TestOutage(t *testing.T) {
	w := newWorld(t)
	i := w.issuer(nil)
	w.With(func(s *vaulttest.State) {
		s.Answer = func(rw http.ResponseWriter, _ *http.Request, _ vaulttest.Call) bool {
			vaulttest.Fail(rw, http.StatusServiceUnavailable, "Vault is sealed")
			return true
		}
	})
	begin := w.clock.Now()
	for outage := time.Duration(0); outage < 2*time.Hour; outage = w.clock.Since(begin) {
		ready := w.check(t, i)
		pause, most := ready.Again.Sub(w.clock.Now()), max(outage/10, 10*time.Second)
		if ready.OK || ready.Retry != nil || pause <= 0 || pause > min(most, 5*time.Minute) {
			t.Fatalf("after %v: %+v, again after %v", outage, ready, pause)
		}
		w.clock.SetTime(ready.Again)
	}
	if calls := len(w.Calls()); calls > 80 {
		t.Errorf("%d calls in two hours", calls)
	}
}

// A pause that the server asks for is no outage.
func TestPause(t *testing.T) {
	w := newWorld(t)
	i := w.issuer(nil)
	if !w.check(t, i).OK {
		t.Fatal("not ready")
	}
	i.Status.Conditions = []cmv1.IssuerCondition{{Type: cmv1.IssuerConditionReady, Status: cmmeta.ConditionTrue, Reason: "VaultVerified", ObservedGeneration: 1}}
	w.With(func(s *vaulttest.State) {
		s.Answer = func(rw http.ResponseWriter, _ *http.Request, _ vaulttest.Call) bool {
			rw.Header().Set("Retry-After", "120")
			vaulttest.Fail(rw, http.StatusTooManyRequests, "rate limit quota exceeded")
			return true
		}
	})
	if _, err := w.sign(t, i, w.certificateRequest(t, nil)); !strings.Contains(w.verdict(err), "VaultUnavailable") {
		t.Fatal(w.verdict(err))
	}
	calls := len(w.Calls())
	w.clock.Step(time.Minute)
	ready := w.check(t, i)
	if wait := ready.Again.Sub(w.clock.Now()); !ready.OK || wait < time.Minute || wait > 90*time.Second || len(w.Calls()) != calls {
		t.Errorf("%+v, again after %v, %d calls", ready, wait, len(w.Calls())-calls)
	}
}
