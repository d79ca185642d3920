package requests_test

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/policy/requests"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/request"
)

func pkcs10(t *testing.T) []byte {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	data, err := pki.NewRequest(pki.Subject{DNSNames: []string{"www.example.com"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

const (
	csrHead = "apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\nmetadata: {name: web}\nspec:\n  request: %s\n"
	crHead  = "apiVersion: cert-manager.io/v1\nkind: CertificateRequest\nmetadata: {name: web%s}\nspec:\n  request: %s\n"
	crtHead = "apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: web, namespace: shop}\nspec:\n  secretName: web\n  issuerRef: {name: internal}\n  privateKey: {algorithm: ECDSA}\n"
	podHead = "apiVersion: certificates.k8s.io/v1beta1\nkind: PodCertificateRequest\nmetadata: {name: web, namespace: shop}\nspec:\n  signerName: a.io/b\n  podName: p\n  serviceAccountName: sa\n  nodeName: n1\n  stubPKCS10Request: %s\n"
)

// What a file does not say, options do; what is missing then is an error that
// says how to give it.
func TestRead(t *testing.T) {
	data := pkcs10(t)
	inBase64 := base64.StdEncoding.EncodeToString(data)
	block, _ := pem.Decode(data)
	alice := request.User("alice", "team-shop")
	csr, cr := fmt.Sprintf(csrHead, inBase64), fmt.Sprintf(crHead, ", namespace: shop", inBase64)
	pod := fmt.Sprintf(podHead, base64.StdEncoding.EncodeToString(block.Bytes))
	tests := []struct {
		reason string
		text   []byte
		with   requests.Options
		want   string // signer, kind, requester, usages, lifetime, CA
		failed string
	}{
		{reason: "PEM", text: data, with: requests.Options{Signer: "a.io/b", As: &alice, Usages: []string{"server auth"}}, want: "a.io/b CertificateSigningRequest web alice server auth"},
		{reason: "PEM with text around it", text: append([]byte("Certificate Request:\n"), data...), with: requests.Options{Signer: "a.io/b", As: &alice, Usages: []string{"server auth"}}, want: "a.io/b CertificateSigningRequest web alice server auth"},
		{reason: "PEM for an issuer in a namespace", text: data, with: requests.Options{Signer: "issuers.cert-manager.io/shop.internal", Namespace: "shop", As: &alice}, want: "issuers.cert-manager.io/shop.internal CertificateRequest shop/web alice digital signature,key encipherment"},
		{reason: "PEM for an issuer in no namespace", text: data, with: requests.Options{Signer: "issuers.cert-manager.io/shop.internal", As: &alice, Usages: []string{"server auth"}}, want: "issuers.cert-manager.io/shop.internal CertificateSigningRequest web alice server auth"},
		{reason: "PEM with another kind", text: data, with: requests.Options{Kind: v1alpha1.CertificateSigningRequests, Signer: "issuers.cert-manager.io/shop.internal", Namespace: "shop", As: &alice, Usages: []string{"server auth"}}, want: "issuers.cert-manager.io/shop.internal CertificateSigningRequest web alice server auth"},
		{reason: "PEM for a pod", text: data, with: requests.Options{Kind: v1alpha1.PodCertificateRequests, Signer: "a.io/b"}, failed: "a PKCS#10 request alone cannot be a PodCertificateRequest"},
		{reason: "PEM for an issuer of another namespace", text: data, with: requests.Options{Signer: "issuers.cert-manager.io/ops.internal", Namespace: "shop", As: &alice}, failed: "is an Issuer in the namespace ops, but the request is in shop"},
		{reason: "PEM for an issuer of another group", text: data, with: requests.Options{Kind: v1alpha1.CertificateRequests, Signer: "foos.example.com/shop.internal", Namespace: "shop", As: &alice}, failed: "is not an issuer of cert-manager.io"},
		{reason: "PEM without a signer", text: data, with: requests.Options{As: &alice}, failed: "web.csr: a PKCS#10 request names no signer"},
		{reason: "a certificate", text: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte{1}}), failed: "this is a CERTIFICATE: a CERTIFICATE REQUEST is needed"},
		{reason: "a key", text: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: []byte{1}}), failed: "this is a private key"},
		{reason: "an old block type", text: bytes.ReplaceAll(data, []byte(" CERT"), []byte(" NEW CERT")), with: requests.Options{Signer: "a.io/b"}, failed: "the API accepts only the block type CERTIFICATE REQUEST"},
		{reason: "PEM that is broken", text: []byte("-----BEGIN CERTIFICATE REQUEST-----\n"), failed: "the PEM block cannot be read"},

		{reason: "a CSR as the API has it", text: []byte(csr + "  signerName: a.io/b\n  usages: [client auth]\n  username: bob\n  expirationSeconds: 3600\n"), want: "a.io/b CertificateSigningRequest web bob client auth 1h0m0s"},
		{reason: "a CSR by somebody else", text: []byte(csr + "  signerName: a.io/b\n  usages: [client auth]\n  username: bob\n"), with: requests.Options{As: &alice, Usages: []string{"server auth"}, Duration: new(2 * time.Hour), Signer: "c.io/d"}, want: "c.io/d CertificateSigningRequest web alice server auth 2h0m0s"},
		{reason: "a CSR for a CA", text: []byte(csr + "  signerName: a.io/b\n  usages: [cert sign]\n  username: bob\n"), with: requests.Options{CA: true}, want: "a.io/b CertificateSigningRequest web bob cert sign CA"},
		{reason: "a CSR without a signer", text: []byte(csr + "  usages: [client auth]\n  username: bob\n"), failed: "web.csr:1: CertificateSigningRequest web: spec.signerName is missing"},
		{reason: "a CSR without usages", text: []byte(csr + "  signerName: a.io/b\n  username: bob\n"), failed: "spec.usages is missing"},
		{reason: "a CSR of nobody", text: []byte(csr + "  signerName: a.io/b\n  usages: [client auth]\n"), failed: "spec.username is missing"},
		{reason: "a CSR of the caller", text: []byte(csr + "  signerName: a.io/b\n  usages: [client auth]\n"), with: requests.Options{Whoami: func() (request.Requester, error) { return request.User("carol"), nil }}, want: "a.io/b CertificateSigningRequest web carol client auth"},
		{reason: "a CSR of a caller whom nobody knows", text: []byte(csr + "  signerName: a.io/b\n  usages: [client auth]\n"), with: requests.Options{Whoami: func() (request.Requester, error) { return request.Requester{}, errors.New("no server") }}, failed: "no server"},
		{reason: "a misspelt field", text: []byte(csr + "  signername: a.io/b\n"), failed: `web.csr:6: unknown field "spec.signername"`},

		{reason: "a CertificateRequest", text: []byte(cr + "  issuerRef: {name: internal}\n  username: bob\n  isCA: true\n  duration: 1h\n"), want: "issuers.cert-manager.io/shop.internal CertificateRequest shop/web bob digital signature,key encipherment 1h0m0s CA"},
		{reason: "a CertificateRequest in the caller's namespace", text: []byte(fmt.Sprintf(crHead, "", inBase64) + "  issuerRef: {name: internal, kind: ClusterIssuer}\n  username: bob\n"), with: requests.Options{DefaultNamespace: "ops"}, want: "clusterissuers.cert-manager.io/internal CertificateRequest ops/web bob digital signature,key encipherment"},
		{reason: "a CertificateRequest in no namespace", text: []byte(fmt.Sprintf(crHead, "", inBase64)), failed: "metadata.namespace is missing: name it with --namespace"},
		{reason: "a CertificateRequest in another namespace", text: []byte(cr), with: requests.Options{Namespace: "ops"}, failed: "it is in the namespace shop, not in ops as given with --namespace"},
		{reason: "a CertificateRequest without an issuer", text: []byte(cr), failed: "spec.issuerRef.name is missing"},
		{reason: "a CertificateRequest to an issuer of another group", text: []byte(cr + "  issuerRef: {name: internal, kind: FooIssuer, group: example.com}\n  username: bob\n"), want: "fooissuers.example.com/shop.internal CertificateRequest shop/web bob digital signature,key encipherment"},

		{reason: "a pod's request", text: []byte(pod), with: requests.Options{Duration: new(time.Hour)}, want: "a.io/b PodCertificateRequest shop/web system:serviceaccount:shop:sa  1h0m0s"},
		{reason: "a pod's request by somebody", text: []byte(pod), with: requests.Options{As: &alice}, failed: "the requester of a pod's request is the pod's service account"},
		{reason: "a pod's request with usages", text: []byte(pod), with: requests.Options{Usages: []string{"server auth"}}, failed: "a pod's request names no usages"},

		{reason: "a Certificate", text: []byte(crtHead + "  dnsNames: [a.example.com]\n"), with: requests.Options{Controller: request.User("controller")}, want: "issuers.cert-manager.io/shop.internal CertificateRequest shop/web-1 controller digital signature,key encipherment"},
		{reason: "a Certificate with other terms", text: []byte(crtHead + "  dnsNames: [a.example.com]\n"), with: requests.Options{Controller: request.User("controller"), Usages: []string{"client auth"}, Duration: new(48 * time.Hour), CA: true, Signer: "clusterissuers.cert-manager.io/x"}, want: "clusterissuers.cert-manager.io/x CertificateRequest shop/web-1 controller client auth 48h0m0s CA"},
		{reason: "a Certificate that is not valid", text: []byte(crtHead), failed: "at least one of"},
		{reason: "another kind", text: []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"), failed: "web.csr:2: a Pod of v1 is not a request: give a CertificateSigningRequest"},
		{reason: "a policy", text: []byte("apiVersion: certplane.dev/v1alpha1\nkind: CertificatePolicy\nmetadata: {name: p}\n"), failed: "policies are given with --policies"},
		{reason: "nothing", text: []byte("# nothing\n"), failed: "web.csr: has no objects"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			asked, err := tt.with.Read("web.csr", tt.text)
			if err != nil || tt.failed != "" {
				if err == nil || tt.failed == "" || !strings.Contains(err.Error(), tt.failed) {
					t.Fatalf("error %v, want %q", err, tt.failed)
				}
				return
			}
			r := asked[0].Request
			got := []string{certpolicy.SignerName(r), asked[0].Name(), r.Who().Username, strings.Join(r.Usages, ",")}
			if r.Duration != nil {
				got = append(got, r.Duration.String())
			}
			if r.AsksForCA() {
				got = append(got, "CA")
			}
			if text := strings.TrimRight(strings.Join(got, " "), " "); text != strings.TrimRight(tt.want, " ") {
				t.Errorf("got  %q\nwant %q", text, tt.want)
			}
			if r.Unreadable != nil {
				t.Error(r.Unreadable)
			}
		})
	}
}

// A request for a Certificate has this origin and owner, which need not be looked
// for.
func TestOrigin(t *testing.T) {
	options := &requests.Options{Controller: request.User("controller")}
	asked, err := options.Read("web.yaml", []byte(crtHead+"  dnsNames: [a.example.com]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if a := asked[0]; !a.Origin.Known || *a.Origin.Value != v1alpha1.OriginCertificate || a.Owner.Value.Name != "web" || a.Request.Owner.UID != a.Owner.Value.UID {
		t.Errorf("%+v %+v", a.Origin, a.Owner)
	}
}

func TestUser(t *testing.T) {
	for _, tt := range []struct {
		user   request.Requester
		groups []string
	}{
		{request.User("alice"), []string{"system:authenticated"}},
		{request.User("alice", "a", "system:authenticated"), []string{"a", "system:authenticated"}},
		{request.User("system:anonymous", "system:unauthenticated"), []string{"system:unauthenticated"}},
		{request.User("system:serviceaccount:shop:sa"), []string{"system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"}},
	} {
		if !slices.Equal(tt.user.Groups, tt.groups) {
			t.Errorf("%s is in %q, want %q", tt.user.Username, tt.user.Groups, tt.groups)
		}
	}
	for _, bad := range []string{"", "a", "/a", "a/", "a/b/c"} {
		if _, err := requests.ServiceAccount(bad); err == nil {
			t.Errorf("%q is no error", bad)
		}
	}
}
