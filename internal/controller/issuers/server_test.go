package issuers_test

import (
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

type world struct {
	*apitest.Server
	admin client.Client
}

func start(t *testing.T) world {
	t.Helper()
	w := world{Server: apitest.Start(t)}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, api.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if w.admin, err = client.New(w.Admin(t), client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	return w
}

// apply creates the issuer of a manifest.
func (w world) apply(t *testing.T, manifest string) cmv1.GenericIssuer {
	t.Helper()
	var issuer cmv1.GenericIssuer = &cmv1.Issuer{}
	if strings.Contains(manifest, "kind: ClusterIssuer") {
		issuer = &cmv1.ClusterIssuer{}
	}
	if err := yaml.Unmarshal([]byte(manifest), issuer); err != nil {
		t.Fatal(err)
	}
	if err := w.admin.Create(t.Context(), issuer.(client.Object)); err != nil {
		t.Fatal(err)
	}
	return issuer
}

// says waits until an issuer's Ready condition is "status reason message...".
func (w world) says(t *testing.T, issuer cmv1.GenericIssuer, want string) {
	t.Helper()
	apitest.Eventually(t, issuer.GetName()+" says "+want, func() bool {
		object := issuer.(client.Object)
		if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
		ready := api.IssuerCondition(issuer, cmv1.IssuerConditionReady)
		if ready == nil || ready.ObservedGeneration != issuer.GetGeneration() {
			return false
		}
		return strings.HasPrefix(strings.Join([]string{string(ready.Status), ready.Reason, ready.Message}, " "), want)
	})
}

// ca returns a Secret with a root CA that is valid from a time on.
func ca(t *testing.T, namespace, name string, life time.Duration, from time.Time) *corev1.Secret {
	t.Helper()
	key := apitest.NewKey(t)
	root, err := pki.NewRoot(pki.UnrecordedSigning, name, key, life, from)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := pki.EncodePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{
		"tls.key": encoded, "tls.crt": pki.EncodeCertificates(root.Certificate()),
	}}
}

// An issuer of type CA follows its Secret: one that does not exist yet, is
// broken, has another key, has expired, is replaced, is deleted.
func TestCAFollowsItsSecret(t *testing.T) {
	w := start(t)
	const day = 24 * time.Hour
	now := time.Now()
	for _, issuer := range []struct{ kind, secrets string }{{"Issuer", "default"}, {"ClusterIssuer", "cert-manager"}} {
		object := w.apply(t, `
apiVersion: cert-manager.io/v1
kind: `+issuer.kind+`
metadata: {name: ca-issuer, namespace: `+map[string]string{"Issuer": "default"}[issuer.kind]+`}
spec: {ca: {secretName: ca-key-pair}}
`)
		w.says(t, object, "False ErrGetKeyPair Error getting keypair for CA issuer: Referenced secret "+issuer.secrets+"/ca-key-pair not found")
		write := func(object client.Object) error { return w.admin.Create(t.Context(), object) }
		for _, step := range []struct {
			change func(*corev1.Secret)
			want   string
		}{
			{func(s *corev1.Secret) { s.Data["tls.crt"] = []byte("broken") }, "False ErrGetKeyPair"},
			{func(*corev1.Secret) {}, "True KeyPairVerified Signing CA verified"},
			{func(s *corev1.Secret) { s.Data["tls.key"] = ca(t, "", "other", day, now).Data["tls.key"] }, "False ErrInvalidKeyPair"},
			{func(s *corev1.Secret) { s.Data = ca(t, "", "old", day, now.Add(-2*day)).Data }, "False ErrInvalidKeyPair The CA in secret " + issuer.secrets + "/ca-key-pair has expired"},
			{func(*corev1.Secret) {}, "True KeyPairVerified"},
		} {
			secret := ca(t, issuer.secrets, "ca-key-pair", day, now)
			step.change(secret)
			if err := write(secret); err != nil {
				t.Fatal(err)
			}
			write = func(object client.Object) error { return w.admin.Update(t.Context(), object) }
			w.says(t, object, step.want)
		}
		if err := w.admin.Delete(t.Context(), ca(t, issuer.secrets, "ca-key-pair", day, now)); err != nil {
			t.Fatal(err)
		}
		w.says(t, object, "False ErrGetKeyPair")
	}
	w.told(t, "cert-manager-issuers", "KeyPairVerified")
	w.told(t, "cert-manager-clusterissuers", "ErrInitIssuer")
}

// told waits for an Event.
func (w world) told(t *testing.T, component, reason string) {
	t.Helper()
	apitest.Eventually(t, reason+" of "+component, func() bool {
		list := &eventsv1.EventList{}
		if err := w.admin.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		for _, event := range list.Items {
			if event.ReportingController == component && event.Reason == reason {
				return true
			}
		}
		return false
	})
}

// These are the issuers of cert-manager's documentation.
func TestIssuers(t *testing.T) {
	w := start(t)
	tests := []struct{ reason, manifest, want string }{
		{"self-signed", `
apiVersion: cert-manager.io/v1
kind: Issuer
metadata:
  name: selfsigned-issuer
  namespace: default
spec:
  selfSigned: {}
`, "True IsReady "},
		{"self-signed, for all namespaces", `
apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata:
  name: selfsigned-cluster-issuer
spec:
  selfSigned:
    crlDistributionPoints:
    - "http://example.com"
`, "True IsReady "},
		{"of a Vault server, without its token", `
apiVersion: cert-manager.io/v1
kind: Issuer
metadata:
  name: vault-issuer
  namespace: default
spec:
  vault:
    path: pki_int/sign/example-dot-com
    server: https://vault.local
    auth:
      tokenSecretRef:
          name: cert-manager-vault-token
          key: token
`, "False VaultError Failed to initialize Vault client: "},
		{"of an ACME server that cannot be reached", `
apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata:
  name: letsencrypt-staging
spec:
  acme:
    email: user@example.com
    server: https://127.0.0.1:1/directory
    privateKeySecretRef:
      name: example-issuer-account-key
    solvers:
    - http01:
        ingress:
          ingressClassName: nginx
`, "False ErrRegisterACMEAccount Failed to register ACME account: "},
		{"of a type that this build does not have", `
apiVersion: cert-manager.io/v1
kind: Issuer
metadata:
  name: venafi
  namespace: default
spec:
  venafi:
    zone: web
    tpp: {url: "https://tpp.example.com", credentialsRef: {name: tpp}}
`, "False NotSupported Issuers of type venafi sign nothing here: this build of certplane does not support them"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) { w.says(t, w.apply(t, tc.manifest), tc.want) })
	}
	table := apitest.Table(t, w.Admin(t), "/apis/cert-manager.io/v1/namespaces/default/issuers")
	if !strings.Contains(table, "selfsigned-issuer") || !strings.Contains(table, "True") {
		t.Errorf("kubectl shows\n%s", table)
	}
}

// A name that no Secret can have is reported, and the controller does not try
// to read it.
func TestImpossibleSecretName(t *testing.T) {
	w := start(t)
	object := w.apply(t, `
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: slash, namespace: default}
spec: {ca: {secretName: a/b}}
`)
	w.says(t, object, `False ErrGetKeyPair Error getting keypair for CA issuer: spec.ca.secretName: "a/b" is not a valid name of a Secret`)
}
