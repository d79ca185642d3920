package acmeserver_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// ofShop lets orders of the endpoint be for names of shop.example without a challenge, and
// adds the profiles "ca", of an issuer with a CA, and "cluster", of a signer whose
// certificates the API honours.
func ofShop(e *v1alpha1.AcmeEndpoint, k *v1alpha1.AcmeExternalKey) {
	e.Spec.Identifiers.DNS.Allow = append(e.Spec.Identifiers.DNS.Allow, "*.shop.example")
	e.Spec.Identifiers.IP = &v1alpha1.AcmeAddresses{Allow: []string{"192.0.2.0/24"}}
	k.Spec.Preauthorized.DNS = append(k.Spec.Preauthorized.DNS, "*.shop.example")
	k.Spec.Preauthorized.IP = []string{"192.0.2.0/24"}
	add := func(name string, edit func(*v1alpha1.AcmeProfile)) {
		p := *e.Spec.Profiles[0].DeepCopy()
		p.Name, p.Signer = name, nil
		edit(&p)
		e.Spec.Profiles = append(e.Spec.Profiles, p)
	}
	add("ca", func(p *v1alpha1.AcmeProfile) {
		p.Issuer = &v1alpha1.AcmeIssuer{Group: "cert-manager.io", Kind: "Issuer", Name: "shop"}
		p.Usages = []string{"digital signature", "key encipherment", "server auth"}
	})
	add("cluster", func(p *v1alpha1.AcmeProfile) {
		p.Signer = &v1alpha1.AcmeSigner{Name: certificatesv1.KubeAPIServerClientSignerName}
		p.Usages, p.Subject = []string{"digital signature", "client auth"}, v1alpha1.AcmeSubjectAny
	})
}

// makeIssuer makes the issuer of the profile "ca".
func (p *program) makeIssuer() {
	p.Helper()
	key := apitest.NewKey(p)
	ca, err := pki.NewRoot(pki.UnrecordedSigning, "shop", key, pki.DefaultRootLifetime, time.Now())
	if err != nil {
		p.Fatal(err)
	}
	encoded, err := pki.EncodePrivateKey(key)
	if err != nil {
		p.Fatal(err)
	}
	p.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: "shop"}, Type: corev1.SecretTypeTLS, Data: map[string][]byte{
		"tls.crt": pki.EncodeCertificates(ca.Certificate()), "tls.key": encoded,
	}})
	issuer := &cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: "shop"}}
	issuer.Spec.CA = &cmv1.CAIssuer{SecretName: "shop"}
	p.Create(issuer)
}

// ordered makes an order of a profile that is ready at once, and returns its URL.
func (p *program) ordered(profile string, names ...string) string {
	p.Helper()
	var ids []map[string]string
	for _, name := range names {
		kind := "dns"
		if net.ParseIP(name) != nil {
			kind = "ip"
		}
		ids = append(ids, map[string]string{"type": kind, "value": name})
	}
	r := p.client.post(p.client.url("new-order"), map[string]any{"identifiers": ids, "profile": profile})
	if r.code != http.StatusCreated || r.json(p.client.t)["status"] != "ready" {
		p.Fatalf("new-order: %d %s", r.code, r.body)
	}
	return r.header.Get("Location")
}

// answered sends a certificate request for an order.
func (p *program) answered(url string, der []byte) *response {
	p.Helper()
	return p.client.post(url+"/finalize", map[string]any{"csr": b64(der)})
}

func file(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "requests", name))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatalf("%s has no PEM block", name)
	}
	return block.Bytes
}

func made(t *testing.T, key crypto.Signer, edit func(*x509.CertificateRequest)) []byte {
	t.Helper()
	template := &x509.CertificateRequest{}
	edit(template)
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func extension(t *testing.T, id asn1.ObjectIdentifier, value any) pkix.Extension {
	t.Helper()
	der, err := asn1.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return pkix.Extension{Id: id, Value: der}
}

// Names, common name and key come from the client's certificate request, everything else
// from the profile: whatever clients write into their requests, they get the certificate of
// the profile.
func TestRequestsOfClients(t *testing.T) {
	p := newProgram(t, ofShop)
	p.AutoApprove()
	p.makeIssuer()
	signer := &v1alpha1.Signer{ObjectMeta: metav1.ObjectMeta{Name: p.Namespace}}
	p.Change(signer, func() {
		signer.Spec.Profile.Subject.CommonName = "request.subject.commonName"
		signer.Spec.Profile.KeyTypes = []v1alpha1.KeyType{"RSA2048", "ECDSAP256"}
	})
	apitest.Eventually(t, "the signer has the common name", func() bool {
		return p.Objects.Get(t.Context(), client.ObjectKeyFromObject(signer), signer) == nil && signer.Status.ObservedGeneration == signer.Generation && meta.IsStatusConditionTrue(signer.Status.Conditions, v1alpha1.Ready)
	})
	key := apitest.NewKey(t)
	a, b := "a.shop.example", "b.shop.example"
	for _, tc := range []struct {
		reason string
		csr    []byte
		names  []string
		common string
	}{
		{"usages of servers and clients, as of acme.sh", file(t, "server-and-client.csr"), []string{a}, a},
		{"the usage of servers", file(t, "server.csr"), []string{a}, a},
		{"key usages", file(t, "key-usage.csr"), []string{a}, a},
		{"the section v3_req of openssl", file(t, "openssl-v3-req.csr"), []string{a}, a},
		{"must-staple", file(t, "must-staple.csr"), []string{a}, ""},
		{"a country and an organization", file(t, "subject.csr"), []string{a}, a},
		{"a common name alone", file(t, "cn-only.csr"), []string{a}, a},
		{"one name in the common name, the other an alternative name", file(t, "cn-a-san-b.csr"), []string{a, b}, a},
		{"a name twice", file(t, "twice.csr"), []string{a}, ""},
		{"several common names", made(t, key, func(r *x509.CertificateRequest) {
			r.Subject.ExtraNames = []pkix.AttributeTypeAndValue{{Type: pki.OIDCommonName, Value: "B.shop.example"}, {Type: pki.OIDCommonName, Value: a}}
		}), []string{a, b}, b},
		{"key encipherment with an ECDSA key", made(t, key, func(r *x509.CertificateRequest) {
			r.DNSNames = []string{"A.Shop.Example"}
			r.ExtraExtensions = append(r.ExtraExtensions, extension(t, asn1.ObjectIdentifier{2, 5, 29, 15}, asn1.BitString{Bytes: []byte{0xa0}, BitLength: 3}))
		}), []string{a}, ""},
		{"an extension of others", made(t, key, func(r *x509.CertificateRequest) {
			r.DNSNames = []string{a}
			r.ExtraExtensions = append(r.ExtraExtensions, extension(t, asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 20, 2}, "WebServer"))
		}), []string{a}, ""},
		{"an address as the common name", made(t, key, func(r *x509.CertificateRequest) { r.Subject.CommonName = "192.0.2.7" }), []string{"192.0.2.7"}, "192.0.2.7"},
	} {
		for _, profile := range []string{"server", "ca"} {
			t.Run(profile+"/"+tc.reason, func(t *testing.T) {
				url := p.ordered(profile, tc.names...)
				if r := p.answered(url, tc.csr); r.code != http.StatusOK {
					t.Fatalf("finalize: %d %s", r.code, r.body)
				}
				apitest.Eventually(t, "the order has ended", func() bool {
					state := p.client.post(url, nil).json(p.client.t)["status"]
					return state == "valid" || state == "invalid"
				})
				o := p.stored(url)
				if o.Status.Certificate == nil {
					t.Fatalf("no certificate: %+v", o.Status.Error)
				}
				certs, err := pki.ParseCertificates([]byte(o.Status.Certificate.Chain))
				if err != nil {
					t.Fatal(err)
				}
				leaf := certs[0]
				var names []string
				for _, ip := range leaf.IPAddresses {
					names = append(names, ip.String())
				}
				names = append(names, leaf.DNSNames...)
				slices.Sort(names)
				if !slices.Equal(names, tc.names) || leaf.Subject.CommonName != tc.common || len(leaf.Subject.Names) > 1 || tc.common == "" && len(leaf.Subject.Names) > 0 {
					t.Errorf("the certificate is of %q with the names %q, want CN=%s and %q", leaf.Subject, names, tc.common, tc.names)
				}
				if !slices.Equal(leaf.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}) || leaf.KeyUsage&^(x509.KeyUsageDigitalSignature|x509.KeyUsageKeyEncipherment) != 0 {
					t.Errorf("the certificate has the usages %v and %v", leaf.KeyUsage, leaf.ExtKeyUsage)
				}
				for _, e := range leaf.Extensions {
					if e.Id.Equal(asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 24}) || e.Id.Equal(asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 20, 2}) {
						t.Errorf("the certificate has the extension %v of the request", e.Id)
					}
				}
			})
		}
	}
}

// A request that is refused for its form is badCSR and leaves the order ready for another one,
// also if only the Signer refuses it.
func TestRefusedRequestLeavesOrderReady(t *testing.T) {
	p := newProgram(t, ofShop)
	p.AutoApprove()
	signer := &v1alpha1.Signer{ObjectMeta: metav1.ObjectMeta{Name: p.Namespace}}
	p.Change(signer, func() {
		signer.Spec.Profile.KeyTypes = []v1alpha1.KeyType{"ECDSAP256"}
		signer.Spec.Profile.Rules = []v1alpha1.ProfileRule{{Expression: `request.subject.commonName == ""`, Message: "no common names here", Reason: "CommonNameGiven"}}
	})
	apitest.Eventually(t, "the signer has the rules", func() bool {
		return p.Objects.Get(t.Context(), client.ObjectKeyFromObject(signer), signer) == nil && signer.Status.ObservedGeneration == signer.Generation
	})
	key, name := apitest.NewKey(t), "a.shop.example"
	long, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	good := made(t, key, func(r *x509.CertificateRequest) { r.DNSNames = []string{name} })
	url := p.ordered("server", name)
	for _, tc := range []struct {
		reason, detail string
		csr            []byte
	}{
		{"a key that the Signer does not support", "RSA2048", made(t, long, func(r *x509.CertificateRequest) { r.DNSNames = []string{name} })},
		{"a rule of the Signer", "no common names here", made(t, key, func(r *x509.CertificateRequest) { r.Subject.CommonName = name })},
		{"an e-mail address", "other than", made(t, key, func(r *x509.CertificateRequest) {
			r.DNSNames, r.EmailAddresses = []string{name}, []string{"a@shop.example"}
		})},
		{"a CA", "CA", made(t, key, func(r *x509.CertificateRequest) {
			r.DNSNames = []string{name}
			r.ExtraExtensions = append(r.ExtraExtensions, extension(t, pki.OIDBasicConstraints, struct{ IsCA bool }{true}))
		})},
		{"another common name", "common name", made(t, key, func(r *x509.CertificateRequest) {
			r.DNSNames, r.Subject.CommonName = []string{name}, "web server"
		})},
	} {
		apitest.Eventually(t, tc.reason+" is refused", func() bool { // the ACME server's cache may not have the Signer's rules yet
			r := p.answered(url, tc.csr)
			if r.code == http.StatusOK {
				url = p.ordered("server", name)
				return false
			}
			expect(t, tc.reason, r, 400, "badCSR")
			if !strings.Contains(string(r.body), tc.detail) {
				t.Errorf("%s: %s", tc.reason, r.body)
			}
			return true
		})
		if r := p.client.post(url, nil); r.json(t)["status"] != "ready" {
			t.Fatalf("after %s the order is %s", tc.reason, r.body)
		}
	}
	expect(t, "the amended request", p.answered(url, good), 200, "")
	p.until(url, "valid")
}

// A client of ACME does not choose its groups at the API, whatever the profile says.
func TestClientsDoNotChooseTheirGroups(t *testing.T) {
	p := newProgram(t, ofShop)
	p.AutoApprove()
	name, key := "a.shop.example", apitest.NewKey(t)
	url := p.ordered("cluster", name)
	subject := func(edit func(*x509.CertificateRequest)) []byte {
		return made(t, key, func(r *x509.CertificateRequest) {
			r.DNSNames, r.Subject.CommonName = []string{name}, name
			edit(r)
		})
	}
	for _, group := range []string{"pki-officers", "system:nodes", "system:masters"} {
		r := p.answered(url, subject(func(r *x509.CertificateRequest) { r.Subject.Organization = []string{group} }))
		expect(t, group, r, 400, "badCSR")
	}
	expect(t, "a common name", p.answered(url, subject(func(*x509.CertificateRequest) {})), 200, "")
	p.until(url, "valid")
	encoded, err := pki.EncodePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	admin := p.Server.Admin(t)
	as := &rest.Config{Host: admin.Host, TLSClientConfig: rest.TLSClientConfig{
		CAData: admin.CAData, CAFile: admin.CAFile, CertData: []byte(p.stored(url).Status.Certificate.Chain), KeyData: encoded,
	}}
	api, err := kubernetes.NewForConfig(as)
	if err != nil {
		t.Fatal(err)
	}
	review, err := api.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if who := review.Status.UserInfo; who.Username != name || !slices.Equal(who.Groups, []string{"system:authenticated"}) {
		t.Errorf("the API takes the client for %+v", who)
	}
}
