package zlint

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"net/url"
	"slices"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/certplane/certplane/internal/issuing"
	caissuer "github.com/certplane/certplane/internal/issuing/ca"
	"github.com/certplane/certplane/internal/issuing/selfsigned"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

// keyTypes are the key types of requested certificates.
var keyTypes = []pki.KeyType{pki.RSA2048, pki.ECDSAP256, pki.ECDSAP384, pki.ECDSAP521, pki.Ed25519}

// requests has one request for each built-in signer, which accepts it.
var requests = map[string]struct {
	template x509.CertificateRequest
	usages   []certificatesv1.KeyUsage
}{
	certificatesv1.KubeAPIServerClientSignerName: {
		x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane", Organization: []string{"dev"}}},
		[]certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
	},
	certificatesv1.KubeAPIServerClientKubeletSignerName: {
		x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}}},
		[]certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
	},
	certificatesv1.KubeletServingSignerName: {
		x509.CertificateRequest{
			Subject:  pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}},
			DNSNames: []string{"n1.example.com"}, IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1), net.ParseIP("fd00::1")},
		},
		[]certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
	},
	signer.LegacyUnknown: {
		x509.CertificateRequest{
			DNSNames: []string{"a.example.com", "*.b.example.com"}, EmailAddresses: []string{"a@example.com"},
			URIs: []*url.URL{{Scheme: "spiffe", Host: "cluster.local", Path: "/ns/a/sa/b"}},
		},
		[]certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature},
	},
}

// encode makes a request with a key of this type.
func encode(t *testing.T, template x509.CertificateRequest, kind pki.KeyType) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, newKey(t, kind))
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// TestSigners has zlint judge what the built-in signers issue, from CAs with keys of
// all types.
func TestSigners(t *testing.T) {
	now := time.Now()
	root := newRoot(t, now)
	for _, name := range signer.Names() {
		asked, ok := requests[name]
		if !ok {
			t.Errorf("there is no request for the signer %s", name)
		}
		for _, kind := range keyTypes {
			t.Run(name+" "+string(kind), func(t *testing.T) {
				wantFailed(t, issue(t, newCA(t, root, kind, now), certificatesv1.CertificateSigningRequestSpec{
					SignerName: name, Request: encode(t, asked.template, kind), Usages: asked.usages,
				}, now))
			})
		}
	}
}

func newCA(t *testing.T, root *pki.Authority, kind pki.KeyType, now time.Time) *pki.Authority {
	t.Helper()
	ca, err := root.NewIntermediate(pki.UnrecordedSigning, "Example CA", newKey(t, kind), 5*365*24*time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func issue(t *testing.T, ca *pki.Authority, spec certificatesv1.CertificateSigningRequestSpec, now time.Time) *x509.Certificate {
	t.Helper()
	profile, err := signer.Lookup(spec.SignerName)
	if err != nil {
		t.Fatal(err)
	}
	sign := signer.Local(profile, func() (*pki.Authority, error) { return ca, nil }, pki.Unrecorded)
	issued, err := sign(t.Context(), request.FromCSR(&certificatesv1.CertificateSigningRequest{Spec: spec}), signer.Permission{}, now)
	if err != nil {
		t.Fatal(err)
	}
	return issued.Certificate
}

// What zlint objects to in certificates that signers issue as requested.
var (
	// notForRSA are usages that are approved for an RSA key nevertheless.
	notForRSA = []string{"key agreement", "crl sign", "encipher only", "decipher only"}
	rsaFails  = []string{"e_rsa_allowed_ku_ee"}
	// selfSignedFails is the lint that self-signed end entities fail.
	selfSignedFails = []string{"e_ext_authority_key_identifier_no_key_identifier"}
)

// TestUsages has zlint judge a certificate for each usage of the CSR API except
// cert sign, which no signer gives.
func TestUsages(t *testing.T) {
	now := time.Now()
	ca := newCA(t, newRoot(t, now), pki.ECDSAP256, now)
	everything := pki.Usages{Key: (1<<9 - 1) &^ x509.KeyUsageCertSign}
	for usage := x509.ExtKeyUsageAny; usage <= x509.ExtKeyUsageNetscapeServerGatedCrypto; usage++ {
		everything.Extended = append(everything.Extended, usage)
	}
	names := everything.Names()
	if len(names) < 18 {
		t.Fatalf("the usages are %q", names)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			usages := []certificatesv1.KeyUsage{certificatesv1.KeyUsage(name)}
			if parsed, _ := pki.ParseUsages(usages); parsed.Key == 0 {
				usages = append(usages, certificatesv1.UsageDigitalSignature)
			}
			cert := issue(t, ca, certificatesv1.CertificateSigningRequestSpec{
				SignerName: signer.LegacyUnknown, Request: encode(t, requests[signer.LegacyUnknown].template, pki.RSA2048), Usages: usages,
			}, now)
			if slices.Contains(notForRSA, name) {
				wantFailed(t, cert, rsaFails...)
			} else {
				wantFailed(t, cert)
			}
		})
	}
}

// TestOwn has zlint judge what the server makes for itself.
func TestOwn(t *testing.T) {
	now := time.Now()
	root := newRoot(t, now)
	wantFailed(t, root.Certificate())
	for _, kind := range keyTypes {
		ca := newCA(t, root, kind, now)
		wantFailed(t, ca.Certificate())
		for _, usages := range []pki.Usages{pki.ServerUsages(), pki.ClientUsages()} {
			subject := pki.Subject{CommonName: "certplane", DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv6loopback}}
			chain, err := ca.Issue(pki.UnrecordedSigning, subject, newKey(t, kind).Public(), usages, 24*time.Hour, now)
			if err != nil {
				t.Fatal(err)
			}
			wantFailed(t, chain[0])
		}
	}
}

// TestIssuers has zlint judge what Issuers of the types CA and SelfSigned sign.
func TestIssuers(t *testing.T) {
	now := time.Now()
	root := newRoot(t, now)
	where := []string{"http://ca.example.com/a"}
	config := &cmv1.CAIssuer{CRLDistributionPoints: where, OCSPServers: where, IssuingCertificateURLs: where}
	for _, kind := range keyTypes {
		for reason, isCA := range map[string]bool{"leaf": false, "CA": true} {
			t.Run(string(kind)+" "+reason, func(t *testing.T) {
				usages := []cmv1.KeyUsage{cmv1.UsageDigitalSignature}
				if isCA {
					usages = append(usages, cmv1.UsageCertSign)
				}
				template := x509.CertificateRequest{Subject: pkix.Name{CommonName: "a.example.com"}, DNSNames: []string{"a.example.com"}}
				req, err := issuing.RequestOf(request.FromCertificateRequest(&cmv1.CertificateRequest{Spec: cmv1.CertificateRequestSpec{
					Request: encode(t, template, kind), Usages: usages, IsCA: isCA,
				}}))
				if err != nil {
					t.Fatal(err)
				}
				issued, err := caissuer.Sign(t.Context(), issuing.Config{Issuing: pki.Unrecorded}, req, config, root, now)
				if err != nil {
					t.Fatal(err)
				}
				wantFailed(t, issued.Certificate)
				if self := signSelf(t, req, kind, now); isCA {
					wantFailed(t, self)
				} else {
					wantFailed(t, self, selfSignedFails...)
				}
			})
		}
	}
}

func signSelf(t *testing.T, req issuing.Request, kind pki.KeyType, now time.Time) *x509.Certificate {
	t.Helper()
	key, err := pki.EncodePrivateKey(newKey(t, kind))
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{Data: map[string][]byte{corev1.TLSPrivateKeyKey: key}}
	issued, err := selfsigned.Sign(t.Context(), pki.Unrecorded, req, &cmv1.SelfSignedIssuer{}, selfsigned.KeySecret{Name: "key", Secret: secret}, now)
	if err != nil {
		t.Fatal(err)
	}
	return issued.Certificate
}
