package readymade_test

import (
	"crypto/rand"
	"crypto/x509"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/agenthost"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/profile"
	"github.com/certplane/certplane/internal/policy/profile/readymade"
	"github.com/certplane/certplane/internal/policy/request"
)

var parameters = readymade.Parameters{TrustDomain: "example.org", ClusterDomain: "cluster.local"}

// compile reads a Signer strictly: what its kind has no field for is a mistake.
func compile(t *testing.T, name string) *profile.Profile {
	t.Helper()
	object, err := readymade.Make(name, parameters)
	if err != nil {
		t.Fatal(err)
	}
	var signer v1alpha1.Signer
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &signer, true); err != nil {
		t.Fatal(err)
	}
	p, errs := profile.Compile(signer.Spec, field.NewPath("spec"))
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	if signer.Name != name {
		t.Errorf("the Signer %s has the name %s", name, signer.Name)
	}
	return p
}

func facts(t *testing.T) request.Request {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	day := 24 * time.Hour
	return request.Request{
		Kind: v1alpha1.PodCertificateRequests, Name: "req", Namespace: "shop", UID: "u", Key: key.Public(), Duration: &day,
		Pod:             &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "shop"}},
		ServiceAccount:  &metav1.ObjectMeta{Name: "web", Namespace: "shop"},
		Node:            &metav1.ObjectMeta{Name: "n1"},
		NamespaceObject: &metav1.ObjectMeta{Name: "shop"},
		Services:        []request.ServiceName{{Name: "web", Namespace: "shop"}, {Name: "api", Namespace: "shop"}},
	}
}

func TestCertificates(t *testing.T) {
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	tests := []struct {
		name    string
		subject string
		dns     []string
		change  func(*request.Request)
		key     x509.KeyUsage // besides that for signatures
		uris    []string
		usages  []x509.ExtKeyUsage
	}{
		{name: readymade.SPIFFE, uris: []string{"spiffe://example.org/ns/shop/sa/web"}, usages: both},
		{name: readymade.ServiceDNS, usages: both[:1],
			dns: []string{"web.shop.svc", "api.shop.svc", "web.shop.svc.cluster.local", "api.shop.svc.cluster.local"}},
		{name: readymade.KubeAPIServerClientPod, usages: both[1:],
			subject: "CN=system:serviceaccount:shop:web,O=system:serviceaccounts+O=system:serviceaccounts:shop"},
		{name: readymade.ACMEHosts, subject: "CN=a.example", dns: []string{"a.example", "b.example"}, usages: both[:1], change: ofOrder(t), key: x509.KeyUsageKeyEncipherment},
		{name: readymade.AgentHosts, dns: []string{"a.example", "b.example"}, usages: both[:1], change: ofHost("a.example,b.example", "")},
		{name: readymade.Server, subject: "CN=web.example", dns: []string{"web.example", "www.example"}, usages: both[:1],
			change: ofServer(t, pki.Subject{CommonName: "web.example", DNSNames: []string{"web.example", "www.example"}}), key: x509.KeyUsageKeyEncipherment},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			cert, err := compile(t, tc.name).Decide(changed(facts(t), tc.change))
			if err != nil {
				t.Fatal(err)
			}
			var uris []string
			for _, uri := range cert.URIs {
				uris = append(uris, uri.String())
			}
			got := []any{cert.Subject.String(), cert.DNSNames, uris, len(cert.IPAddresses), len(cert.EmailAddresses), cert.Usages.Extended, cert.Usages.Key, cert.Duration}
			want := []any{tc.subject, tc.dns, tc.uris, 0, 0, tc.usages, tc.key | x509.KeyUsageDigitalSignature, 24 * time.Hour}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("certificate (-want +got):\n%s", diff)
			}
			checkLint(t, cert)
		})
	}
	if len(tests) != len(readymade.Names()) {
		t.Errorf("there are %v", readymade.Names())
	}
}

func changed(r request.Request, change func(*request.Request)) request.Request {
	if change != nil {
		change(&r)
	}
	return r
}

// ofOrder makes a request that of an ACME client with an order.
func ofOrder(t *testing.T) func(*request.Request) {
	t.Helper()
	made := ofServer(t, pki.Subject{CommonName: "a.example", DNSNames: []string{"a.example", "b.example"}})
	return func(r *request.Request) {
		made(r)
		r.Order = &v1alpha1.ProvenOrder{Endpoint: "corp", Account: "a"}
	}
}

// ofServer makes a request a CertificateSigningRequest for a server certificate.
func ofServer(t *testing.T, subject pki.Subject) func(*request.Request) {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	text, err := pki.NewRequest(subject, key)
	if err != nil {
		t.Fatal(err)
	}
	return func(r *request.Request) {
		*r = request.FromCSR(&certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: readymade.ServerSignerName, Request: text, ExpirationSeconds: new(int32(86400)), Username: "ann",
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageServerAuth},
		}})
	}
}

// The subject of a server certificate says nothing that its names do not say.
func TestServerSubjects(t *testing.T) {
	address := []net.IP{net.IPv4(10, 0, 0, 7)}
	for _, tc := range []struct {
		reason  string
		subject pki.Subject
		want    string // of the error
	}{
		{"no subject", pki.Subject{DNSNames: []string{"web.example"}}, ""},
		{"one of the addresses", pki.Subject{CommonName: "10.0.0.7", IPAddresses: address}, ""},
		{"no names", pki.Subject{CommonName: "web.example"}, "needs a DNS name or an IP address"},
		{"another common name", pki.Subject{CommonName: "shop.example", DNSNames: []string{"web.example"}}, "one of the DNS names or IP addresses"},
		{"an organization", pki.Subject{CommonName: "web.example", Organizations: []string{"Example"}, DNSNames: []string{"web.example"}}, "must be empty, or a common name"},
		{"an e-mail address", pki.Subject{DNSNames: []string{"web.example"}, EmailAddresses: []string{"web@example.com"}}, "does not issue the e-mail address"},
	} {
		cert, err := compile(t, readymade.Server).Decide(changed(facts(t), ofServer(t, tc.subject)))
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", tc.reason, err)
		case tc.want == "":
			checkLint(t, cert)
		case err == nil || !strings.Contains(err.Error(), tc.want):
			t.Errorf("%s: error %v, want %s", tc.reason, err, tc.want)
		}
	}
}

// Only requests that orders prove are signed for ACME clients.
func TestNoOrder(t *testing.T) {
	r := changed(facts(t), ofOrder(t))
	r.Order = nil
	if _, err := compile(t, readymade.ACMEHosts).Decide(r); err == nil || !strings.Contains(err.Error(), "orders of the ACME server alone") {
		t.Errorf("error %v", err)
	}
}

// ofHost makes a request that of an agent, for a service account that lists two names and an
// address.
func ofHost(dnsNames, ipAddresses string) func(*request.Request) {
	return func(r *request.Request) {
		r.Annotations = map[string]string{}
		for key, value := range map[string]string{agenthost.DNSNamesAnnotation: dnsNames, agenthost.IPAddressesAnnotation: ipAddresses} {
			if value != "" {
				r.Annotations[key] = value
			}
		}
		r.ServiceAccount = &metav1.ObjectMeta{Name: "web", Namespace: "shop", Annotations: map[string]string{
			agenthost.DNSNamesAnnotation: "a.example,b.example", agenthost.IPAddressesAnnotation: "10.0.0.7",
		}}
	}
}

// A host gets the names and addresses that its service account lists.
func TestAgentHosts(t *testing.T) {
	for _, tc := range []struct {
		reason string
		change func(*request.Request)
		want   string // of the error
	}{
		{"one of the names", ofHost("b.example", ""), ""},
		{"a name and an address", ofHost("a.example", "10.0.0.7"), ""},
		{"another name", ofHost("a.example,c.example", ""), "does not list these DNS names"},
		{"another address", ofHost("", "10.0.0.8"), "does not list these IP addresses"},
		{"nothing", ofHost("", ""), "a DNS name or an IP address is needed"},
		{"a service account that lists nothing", func(r *request.Request) {
			ofHost("a.example", "")(r)
			r.ServiceAccount.Annotations = nil
		}, "does not list these DNS names"},
	} {
		cert, err := compile(t, readymade.AgentHosts).Decide(changed(facts(t), tc.change))
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", tc.reason, err)
		case tc.want == "":
			checkLint(t, cert)
		case err == nil || !strings.Contains(err.Error(), tc.want):
			t.Errorf("%s: error %v, want %s", tc.reason, err, tc.want)
		}
	}
}

func checkLint(t *testing.T, cert *profile.Certificate) {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	ca, err := pki.NewRoot(pki.UnrecordedSigning, "ca", key, 1000*time.Hour, now.Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	serial, err := pki.NewSerial(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ca.Lint(cert.Template(cert.Validity(now), serial), pki.Policy{}); err != nil {
		t.Error(err)
	}
}

func TestNoService(t *testing.T) {
	f := facts(t)
	f.Services = nil
	_, err := compile(t, readymade.ServiceDNS).Decide(f)
	if err == nil || !strings.Contains(err.Error(), "the account system:serviceaccount:shop:web needs the verb claim on the Service") {
		t.Errorf("error %v", err)
	}
}

func TestMakeRefuses(t *testing.T) {
	tests := []struct {
		reason, name string
		parameters   readymade.Parameters
		want         string
	}{
		{"an unknown name", "vault", parameters, `unknown Signer "vault": use one of spiffe, service-dns, kube-apiserver-client-pod, acme-hosts, agent-hosts, server`},
		{"no trust domain", readymade.SPIFFE, readymade.Parameters{}, "must not be empty"},
		{"a trust domain that would end the expression", readymade.SPIFFE, readymade.Parameters{TrustDomain: `x"] + ["y`}, "other characters"},
		{"a cluster domain that would end the expression", readymade.ServiceDNS, readymade.Parameters{ClusterDomain: `x") + "`}, "is not a valid cluster domain"},
		{"no cluster domain", readymade.ServiceDNS, readymade.Parameters{}, "is not a valid cluster domain"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			if _, err := readymade.Make(tc.name, tc.parameters); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %s", err, tc.want)
			}
		})
	}
	if _, err := readymade.Make(readymade.KubeAPIServerClientPod, readymade.Parameters{}); err != nil {
		t.Errorf("it needs no parameters: %v", err)
	}
}
