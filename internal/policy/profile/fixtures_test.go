package profile_test

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/profile"
	"github.com/certplane/certplane/internal/policy/request"
)

// podSpec is a Signer for pods that has all it needs.
func podSpec() v1alpha1.SignerSpec {
	return v1alpha1.SignerSpec{
		SignerName: "example.com/workload",
		Requests:   []v1alpha1.RequestKind{v1alpha1.PodCertificateRequests},
		CA:         v1alpha1.SignerCA{Generated: &v1alpha1.GeneratedCA{}},
		Profile: v1alpha1.SignerProfile{
			Names:  v1alpha1.NamesProfile{URIs: `["spiffe://example.org/ns/" + pod.metadata.namespace + "/sa/" + serviceAccount.metadata.name]`},
			Usages: []string{"digital signature", "key encipherment", "client auth", "server auth"},
		},
	}
}

// csrSpec returns the spec of a Signer that issues what
// CertificateSigningRequests request.
func csrSpec() v1alpha1.SignerSpec {
	spec := podSpec()
	spec.Requests = []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests}
	spec.Profile.Names = v1alpha1.NamesProfile{
		DNSNames: "request.dnsNames", IPAddresses: "request.ipAddresses", URIs: "request.uris", EmailAddresses: "request.emailAddresses",
	}
	return spec
}

func compile(t testing.TB, spec v1alpha1.SignerSpec) *profile.Profile {
	t.Helper()
	p, errs := profile.Compile(spec, field.NewPath("spec"))
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return p
}

var ecdsaKey = sync.OnceValue(func() crypto.Signer { return mustKey(pki.ECDSAP256) })

func mustKey(kind pki.KeyType) crypto.Signer {
	key, err := pki.GenerateKey(kind)
	if err != nil {
		panic(err)
	}
	return key
}

// pkcs10 makes a PKCS#10 request.
func pkcs10(t testing.TB, template x509.CertificateRequest, key crypto.Signer) *pki.Request {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := pki.ParseRequestDER(der)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// podFacts are those of a kubelet's request for the pod web of shop.
func podFacts(t testing.TB) request.Request {
	day := 24 * time.Hour
	return request.Request{
		Kind: v1alpha1.PodCertificateRequests,
		Name: "req-1", Namespace: "shop", UID: "5c0d",
		PKCS10:   pkcs10(t, x509.CertificateRequest{}, ecdsaKey()),
		Key:      ecdsaKey().Public(),
		Duration: &day,
		Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "p1", Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{NodeName: "n1", HostNetwork: true, Containers: []corev1.Container{{Name: "main", Image: "example.com/web:1"}}},
		},
		ServiceAccount:  &metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "s1"},
		Node:            &metav1.ObjectMeta{Name: "n1", UID: "n1", Labels: map[string]string{"zone": "a"}},
		NamespaceObject: &metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"env": "prod"}},
		Services:        []request.ServiceName{{Name: "web", Namespace: "shop"}, {Name: "api", Namespace: "shop"}},
	}
}

// csrFacts are those of a host's request.
func csrFacts(t testing.TB, template x509.CertificateRequest) request.Request {
	return request.Request{
		Kind: v1alpha1.CertificateSigningRequests,
		Name: "host-1", UID: "c1",
		PKCS10:    pkcs10(t, template, ecdsaKey()),
		Key:       ecdsaKey().Public(),
		Usages:    []string{"digital signature", "server auth"},
		Requester: request.Requester{Username: "host:web1.example.com", Groups: []string{"hosts"}},
	}
}

// refusal wants err to be a refusal, or nothing.
func refusal(t testing.TB, err error) profile.Refusal {
	t.Helper()
	if err == nil {
		return profile.Refusal{}
	}
	var r *profile.Refusal
	if !errors.As(err, &r) {
		t.Fatalf("%T is no refusal: %v", err, err)
	}
	return *r
}
