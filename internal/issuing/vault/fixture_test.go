package vault_test

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/issuing/signer/vault"
	"github.com/certplane/certplane/internal/issuing/signer/vault/vaulttest"
	issuingvault "github.com/certplane/certplane/internal/issuing/vault"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

// world is a Vault server, an API with Secrets, and the backend between them.
type world struct {
	*vaulttest.Server
	issuing.Backend
	api   client.Client
	pool  *vault.Pool
	clock *testingclock.FakeClock
	// tokens are the requests for tokens of service accounts; forbidden refuses
	// them.
	tokens    []string
	forbidden bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Server: vaulttest.Start(t), clock: testingclock.NewFakeClock(time.Now().Truncate(time.Second))}
	w.CA.Now = w.clock.Now
	objects := fake.NewClientBuilder().WithObjects(
		secret("ns", "role", "id", "secret-id-1"), secret("ns", "ca", "ca.crt", string(w.Bundle())), secret("cluster", "role", "id", "secret-id-1"),
	).Build()
	w.api = interceptor.NewClient(objects, interceptor.Funcs{SubResourceCreate: w.createToken})
	var err error
	w.pool, err = vault.New(vault.Config{Settings: vault.Settings{AllowLoopback: true}, Clock: w.clock, Random: func(time.Duration) time.Duration { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	w.Backend = issuingvault.New(issuing.Config{Client: w.api, ClusterResources: "cluster"}, w.pool)
	return w
}

func secret(namespace, name, key, value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{key: []byte(value)}}
}

func (w *world) createToken(_ context.Context, _ client.Client, subresource string, of, body client.Object, _ ...client.SubResourceCreateOption) error {
	request := body.(*authenticationv1.TokenRequest)
	w.tokens = append(w.tokens, fmt.Sprintf("%s of %s/%s for %v, %ds", subresource, of.GetNamespace(), of.GetName(), request.Spec.Audiences, *request.Spec.ExpirationSeconds))
	if w.forbidden {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts/token"}, of.GetName(), errors.New(`User "us" cannot create resource`))
	}
	request.Status.Token = "jwt"
	return nil
}

// issuer returns an Issuer that logs in by appRole.
func (w *world) issuer(change func(*cmv1.VaultIssuer)) *cmv1.Issuer {
	i := &cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "corp", UID: "uid-1", Generation: 1}}
	i.Spec.Vault = &cmv1.VaultIssuer{
		Server: w.URL, Path: "pki/sign/web", CABundle: w.Bundle(),
		Auth: cmv1.VaultAuth{AppRole: &cmv1.VaultAppRole{Path: "approle", RoleId: "r", SecretRef: selector("role", "id")}},
	}
	if change != nil {
		change(i.Spec.Vault)
	}
	return i
}

func selector(name, key string) cmmeta.SecretKeySelector {
	return cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: name}, Key: key}
}

func byAccount(v *cmv1.VaultIssuer) {
	v.Auth = cmv1.VaultAuth{Kubernetes: &cmv1.VaultKubernetesAuth{Role: "k", ServiceAccountRef: &cmv1.ServiceAccountRef{Name: "sa", TokenAudiences: []string{"mine"}}}}
}

// subject is what the requests of this test ask for.
func subject() pki.Subject {
	return pki.Subject{
		CommonName: "web", DNSNames: []string{"a.example.com"}, IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1)},
		URIs: []*url.URL{{Scheme: "spiffe", Host: "x", Path: "/y"}}, EmailAddresses: []string{"me@example.com"},
	}
}

func newKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func pkcs10(t testing.TB, of pki.Subject) []byte {
	t.Helper()
	data, err := pki.NewRequest(of, newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// certificateRequest returns a CertificateRequest that was made just now.
func (w *world) certificateRequest(t *testing.T, change func(*cmv1.CertificateRequest)) issuing.Request {
	t.Helper()
	cr := &cmv1.CertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "uid", CreationTimestamp: metav1.NewTime(w.clock.Now())}}
	cr.Spec = cmv1.CertificateRequestSpec{Request: pkcs10(t, subject()), IssuerRef: cmmeta.IssuerReference{Name: "corp"}}
	if change != nil {
		change(cr)
	}
	return requestOf(t, request.FromCertificateRequest(cr))
}

func (w *world) signingRequest(t *testing.T) issuing.Request {
	t.Helper()
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "uid", CreationTimestamp: metav1.NewTime(w.clock.Now())}}
	csr.Spec = certificatesv1.CertificateSigningRequestSpec{
		Request: pkcs10(t, subject()), SignerName: "issuers." + cmapi.GroupName + "/ns.corp", Usages: []certificatesv1.KeyUsage{"digital signature", "key encipherment"},
	}
	return requestOf(t, request.FromCSR(csr))
}

func requestOf(t *testing.T, req request.Request) issuing.Request {
	t.Helper()
	made, err := issuing.RequestOf(req)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func (w *world) sign(t *testing.T, by cmv1.GenericIssuer, req issuing.Request) (*signer.Issued, error) {
	t.Helper()
	return w.Sign(t.Context(), by, req, w.clock.Now())
}

func (w *world) check(t *testing.T, of cmv1.GenericIssuer) issuing.Ready {
	t.Helper()
	ready, err := w.Check(t.Context(), of, w.clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	return ready
}

// verdict shows an error as state, reason and text, and whether a watch ends the
// wait.
func (w *world) verdict(err error) string {
	var permanent *signer.PermanentError
	var pending *signer.PendingError
	text := ""
	switch {
	case err == nil:
		return ""
	case errors.As(err, &permanent):
		text = "Failed " + permanent.Reason + " " + err.Error()
	case errors.As(err, &pending) && pending.Watched:
		text = "Watched " + pending.Reason + " " + pending.Message
	case errors.As(err, &pending):
		text = "Pending " + pending.Reason + " " + pending.Message
	default:
		text = "no verdict: " + err.Error()
	}
	return strings.ReplaceAll(text, w.URL, "SERVER")
}

// warnings shows what an issued certificate warns of.
func warnings(issued *signer.Issued) string {
	if issued == nil {
		return ""
	}
	var all []string
	for _, warning := range issued.Warnings {
		all = append(all, warning.Reason+" "+warning.Message)
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}
