package apitest

import (
	"context"
	"crypto"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/store/datadir"
)

// Anonymous returns a client configuration without credentials.
func (s *Server) Anonymous(t testing.TB) *rest.Config {
	t.Helper()
	cfg := rest.AnonymousClientConfig(s.Admin(t))
	cfg.QPS = -1
	return cfg
}

// Login returns a client configuration whose only credential is a client
// certificate of the server's CA.
func (s *Server) Login(t testing.TB, user string, groups ...string) *rest.Config {
	t.Helper()
	key := NewKey(t)
	subject := pki.Subject{CommonName: user, Organizations: groups}
	chain, err := s.ClientCA(t).Issue(pki.UnrecordedSigning, subject, key.Public(), pki.ClientUsages(), time.Hour, time.Now())
	if err != nil {
		t.Fatalf("issuing a client certificate: %v", err)
	}
	return s.LoginWith(t, pki.EncodeCertificates(chain...), key)
}

// LoginWith is Login with a certificate from elsewhere.
func (s *Server) LoginWith(t testing.TB, certPEM []byte, key crypto.Signer) *rest.Config {
	t.Helper()
	keyPEM, err := pki.EncodePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.Anonymous(t)
	cfg.CertData, cfg.KeyData = certPEM, keyPEM
	return cfg
}

// ClientRoot returns the root of the client certificates that the server
// accepts.
func (s *Server) ClientRoot(t testing.TB) *x509.Certificate {
	t.Helper()
	roots, err := pki.ParseBundle(readFile(t, filepath.Join(datadir.Dir(s.Config.DataDir).PKI(), "client-ca-root.crt")))
	if err != nil {
		t.Fatalf("reading the client root CA: %v", err)
	}
	return roots[0]
}

// ClientCA returns the CA of client certificates. Its own certificate must be
// sent along with those that it issues.
func (s *Server) ClientCA(t testing.TB) *pki.Authority {
	t.Helper()
	dir := datadir.Dir(s.Config.DataDir).PKI()
	ca, err := pki.ParseAuthority(readFile(t, filepath.Join(dir, "client-ca.crt")), readFile(t, filepath.Join(dir, "client-ca.key")))
	if err != nil {
		t.Fatalf("reading the client CA: %v", err)
	}
	return ca
}

// ClientCASecret returns a Secret, not sent yet, with the CA of client
// certificates and its key. An administrator should never create such a Secret.
func (s *Server) ClientCASecret(t testing.TB, namespace, name string) *corev1.Secret {
	t.Helper()
	dir := datadir.Dir(s.Config.DataDir).PKI()
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{
			corev1.TLSCertKey:       readFile(t, filepath.Join(dir, "client-ca.crt")),
			corev1.TLSPrivateKeyKey: readFile(t, filepath.Join(dir, "client-ca.key")),
		},
	}
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Allow is an RBAC rule about resources of certificates.k8s.io. Verbs and
// resources are separated by blanks.
func Allow(verbs, resources string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		Verbs: strings.Fields(verbs), APIGroups: []string{certificatesv1.GroupName},
		Resources: strings.Fields(resources), ResourceNames: names,
	}
}

// Grant gives a user rights, once, and returns when the server has seen them.
func (s *Server) Grant(t testing.TB, user string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	admin := Client(t, s.Admin(t))
	rules = append(rules, Allow("get", "marker-of-grant", user))
	name := metav1.ObjectMeta{Name: "granted:" + user}
	role := &rbacv1.ClusterRole{ObjectMeta: name, Rules: rules}
	if _, err := admin.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatalf("granting rights to %s: %v", user, err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: name,
		RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: name.Name},
		Subjects:   []rbacv1.Subject{{Kind: "User", Name: user}},
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatalf("granting rights to %s: %v", user, err)
	}
	marker := authorizationv1.ResourceAttributes{Verb: "get", Group: certificatesv1.GroupName, Resource: "marker-of-grant", Name: user}
	s.UntilAllowed(t, user, nil, marker)
}

// UntilAllowed waits until the server lets a user do something.
func (s *Server) UntilAllowed(t testing.TB, user string, groups []string, what authorizationv1.ResourceAttributes) {
	t.Helper()
	Eventually(t, "the server knows the rights of "+user, func() bool { return s.Allowed(t, user, groups, what) })
}

// Allowed asks the server whether a user may do something.
func (s *Server) Allowed(t testing.TB, user string, groups []string, what authorizationv1.ResourceAttributes) bool {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: user, Groups: groups, ResourceAttributes: &what},
	}
	answer, err := Client(t, s.Admin(t)).AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("asking what %s may do: %v", user, err)
	}
	return answer.Status.Allowed
}

// Eventually waits until the server has learned something from its watches.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	condition := func(context.Context) (bool, error) { return holds(), nil }
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, startTimeout, true, condition); err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}
