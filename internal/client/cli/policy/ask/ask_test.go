package ask_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/policy/ask"
	"github.com/certplane/certplane/internal/client/cli/policy/facts"
	"github.com/certplane/certplane/internal/client/cli/policy/manifest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/expression"
)

var now = time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)

func maker(t *testing.T) *ask.Maker {
	t.Helper()
	documents, err := manifest.Parse("facts.yaml", []byte(`
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {nodeName: n1, serviceAccountName: sa, containers: []}}
---
{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: web, namespace: shop}, spec: {secretName: s, issuerRef: {name: i}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	store, err := facts.NewStore(documents)
	if err != nil {
		t.Fatal(err)
	}
	return &ask.Maker{Facts: store, Now: now, Keys: &ask.Keys{}}
}

var alice = &v1alpha1.PolicyTestUser{Username: "alice", Groups: []string{"g"}, UID: "u", Extra: map[string][]string{"k": {"v"}}}

// Everything that is asked for is in the request.
func TestContent(t *testing.T) {
	asked, err := maker(t).Request(&v1alpha1.PolicyTestRequest{
		Signer: "a.io/b", Name: "n", As: alice, Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "1"}, Age: &metav1.Duration{Duration: time.Hour},
		CommonName: "cn",
		Subject: &v1alpha1.PolicyTestSubject{
			Organizations: []string{"o1", "o2"}, OrganizationalUnits: []string{"ou"}, Countries: []string{"CH"}, Localities: []string{"l"}, Provinces: []string{"st"},
			StreetAddresses: []string{"s"}, PostalCodes: []string{"p"}, SerialNumber: "7", Other: []v1alpha1.PolicyTestOtherName{{OID: "0.9.2342.19200300.100.1.1", Value: "uid"}},
		},
		DNSNames: []string{"a.example.com"}, IPAddresses: []string{"10.0.0.1"}, URIs: []string{"spiffe://a/b"}, EmailAddresses: []string{"a@example.com"},
		OtherNames: []v1alpha1.PolicyTestOtherName{{OID: "1.3.6.1.4.1.311.20.2.3", Value: "upn"}}, Usages: []string{"cert sign"}, IsCA: true, MaxPathLength: new(int32(1)),
		NameConstraints: &v1alpha1.PolicyTestNameConstraints{Critical: true, Permitted: &v1alpha1.PermittedNames{DNS: []string{"example.com"}, IP: []string{"10.0.0.0/8"}}},
		Extensions:      []v1alpha1.PolicyTestExtension{{OID: "1.2.3.4", Value: "0500"}}, Key: v1alpha1.ECDSAP384, Duration: &metav1.Duration{Duration: time.Hour},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := asked.Request
	if err := r.PKCS10.Strict(); err != nil {
		t.Fatal(err)
	}
	c := expression.RequestContent(&r)
	attributes := map[string]string{}
	for _, a := range c.Subject {
		attributes[a.OID] += a.Value + " "
	}
	if diff := cmp.Diff(map[string]string{
		"2.5.4.3": "cn ", "2.5.4.5": "7 ", "2.5.4.6": "CH ", "2.5.4.7": "l ", "2.5.4.8": "st ", "2.5.4.9": "s ", "2.5.4.10": "o1 o2 ", "2.5.4.11": "ou ", "2.5.4.17": "p ",
		"0.9.2342.19200300.100.1.1": "uid ",
	}, attributes); diff != "" {
		t.Error(diff)
	}
	constraints, err := pki.ReadNameConstraints(r.PKCS10.Extensions)
	if err != nil {
		t.Fatal(err)
	}
	got := []any{
		c.DNSNames, c.IPAddresses, c.URIs, c.EmailAddresses, c.OtherNames[0].Value, c.IsCA, *c.PathLength, pki.KubernetesKeyType(c.Key), r.Usages, *r.Duration,
		r.Labels, r.ObjectAnnotations["a"], r.Created, r.Requester.Username, r.Requester.UID, r.Requester.Groups, r.Requester.Extra,
		constraints.Critical, constraints.Permitted.DNSDomains, constraints.Permitted.IPRanges[0].String(), r.PKCS10.Other[1].Id.String(),
	}
	want := []any{
		[]string{"a.example.com"}, []string{"10.0.0.1"}, []string{"spiffe://a/b"}, []string{"a@example.com"}, "upn", true, 1, "ECDSAP384", []string{"cert sign"}, time.Hour,
		map[string]string{"l": "1"}, "1", now.Add(-time.Hour), "alice", "u", []string{"g", "system:authenticated"}, map[string][]string{"k": {"v"}},
		true, []string{"example.com"}, "10.0.0.0/8", "1.2.3.4",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The kind follows from what is asked for.
func TestKinds(t *testing.T) {
	for _, tt := range []struct {
		reason string
		ask    v1alpha1.PolicyTestRequest
		want   string // kind, signer, requester, origin
	}{
		{"a signer", v1alpha1.PolicyTestRequest{Signer: "a.io/b", As: alice}, "CertificateSigningRequest test a.io/b alice"},
		{"an issuer in a namespace", v1alpha1.PolicyTestRequest{Signer: "clusterissuers.cert-manager.io/i", Namespace: "shop", As: alice}, "CertificateRequest shop/test clusterissuers.cert-manager.io/i alice"},
		{"an issuer by a CertificateSigningRequest", v1alpha1.PolicyTestRequest{Kind: v1alpha1.CertificateSigningRequests, Signer: "clusterissuers.cert-manager.io/i", Namespace: "shop", As: alice}, "CertificateSigningRequest test clusterissuers.cert-manager.io/i alice"},
		{"a pod", v1alpha1.PolicyTestRequest{Signer: "a.io/b", Namespace: "shop", Pod: "web"}, "PodCertificateRequest shop/test a.io/b system:serviceaccount:shop:sa"},
		{"a service account", v1alpha1.PolicyTestRequest{Signer: "a.io/b", As: &v1alpha1.PolicyTestUser{ServiceAccount: "shop/sa"}}, "CertificateSigningRequest test a.io/b system:serviceaccount:shop:sa"},
		{"a Certificate", v1alpha1.PolicyTestRequest{Signer: "issuers.cert-manager.io/shop.i", Namespace: "shop", Origin: v1alpha1.OriginCertificate, Owner: &v1alpha1.PolicyTestOwner{Name: "web"}}, "CertificateRequest shop/test issuers.cert-manager.io/shop.i " + facts.Controller().Username + " owner certificate-shop-web"},
		{"who claims to be a Certificate's", v1alpha1.PolicyTestRequest{Signer: "issuers.cert-manager.io/shop.i", Namespace: "shop", As: alice, Owner: &v1alpha1.PolicyTestOwner{Name: "gone"}}, "CertificateRequest shop/test issuers.cert-manager.io/shop.i alice owner unknown"},
		{"an ACME server", v1alpha1.PolicyTestRequest{Signer: "a.io/b", As: alice, Origin: v1alpha1.OriginACME}, "CertificateSigningRequest test a.io/b alice origin ACME"},
	} {
		asked, err := maker(t).Request(&tt.ask)
		if err != nil {
			t.Errorf("%s: %v", tt.reason, err)
			continue
		}
		got := asked.Name() + " " + certpolicy.SignerName(asked.Request) + " " + asked.Request.Who().Username
		if asked.Request.Owner != nil {
			got += " owner " + string(asked.Request.Owner.UID)
		}
		if asked.Origin.Known {
			got += " origin " + string(*asked.Origin.Value)
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.reason, got, tt.want)
		}
	}
}

func TestRefused(t *testing.T) {
	with := func(change func(*v1alpha1.PolicyTestRequest)) *v1alpha1.PolicyTestRequest {
		r := &v1alpha1.PolicyTestRequest{Signer: "a.io/b", As: alice}
		change(r)
		return r
	}
	for want, ask := range map[string]*v1alpha1.PolicyTestRequest{
		"ask.as must name the requester":                          with(func(r *v1alpha1.PolicyTestRequest) { r.As = nil }),
		"ask.as: either username or serviceAccount must be given": with(func(r *v1alpha1.PolicyTestRequest) { r.As = &v1alpha1.PolicyTestUser{} }),
		`ask.kind: "Pod" is not a kind of request`:                with(func(r *v1alpha1.PolicyTestRequest) { r.Kind = "Pod" }),
		`ask.key: "RSA" is not a type of keys`:                    with(func(r *v1alpha1.PolicyTestRequest) { r.Key = "RSA" }),
		`ask.ipAddresses[0]: "x" is not an IP address`:            with(func(r *v1alpha1.PolicyTestRequest) { r.IPAddresses = []string{"x"} }),
		"ask.uris[0]: ":           with(func(r *v1alpha1.PolicyTestRequest) { r.URIs = []string{":"} }),
		"ask.otherNames[0].oid: ": with(func(r *v1alpha1.PolicyTestRequest) { r.OtherNames = []v1alpha1.PolicyTestOtherName{{OID: "x"}} }),
		"ask.extensions[0].value: encoding/hex": with(func(r *v1alpha1.PolicyTestRequest) {
			r.Extensions = []v1alpha1.PolicyTestExtension{{OID: "1.2", Value: "x"}}
		}),
		"ask.raw.san: encoding/hex":                                     with(func(r *v1alpha1.PolicyTestRequest) { r.Raw = &v1alpha1.PolicyTestRaw{SAN: "x"} }),
		"ask.pod must name a pod":                                       with(func(r *v1alpha1.PolicyTestRequest) { r.Kind = v1alpha1.PodCertificateRequests }),
		"ask.pod: the facts contain no Pod shop/x":                      with(func(r *v1alpha1.PolicyTestRequest) { r.Namespace, r.Pod, r.As = "shop", "x", nil }),
		"ask.owner must name the Certificate that the request is for":   with(func(r *v1alpha1.PolicyTestRequest) { r.Origin = v1alpha1.OriginCertificate }),
		`ask.origin: "Other" must be Direct, Certificate or ACME`:       with(func(r *v1alpha1.PolicyTestRequest) { r.Origin = "Other" }),
		"the requester of a pod's request is the pod's service account": with(func(r *v1alpha1.PolicyTestRequest) { r.Namespace, r.Pod = "shop", "web" }),
	} {
		if _, err := maker(t).Request(ask); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Of a request in a file, ask says only what the file does not.
func TestFile(t *testing.T) {
	made, err := maker(t).Request(&v1alpha1.PolicyTestRequest{Signer: "x.io/y", As: alice, DNSNames: []string{"a.example.com"}})
	if err != nil {
		t.Fatal(err)
	}
	asked, err := maker(t).File("a.csr", made.Request.PEM, &v1alpha1.PolicyTestRequest{Signer: "a.io/b", As: alice, Usages: []string{"server auth"}, Age: &metav1.Duration{Duration: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	if r := asked.Request; r.SignerName != "a.io/b" || r.Requester.Username != "alice" || !r.Created.Equal(now.Add(-time.Hour)) {
		t.Errorf("%+v", r)
	}
	if _, err := maker(t).File("a.csr", made.Request.PEM, &v1alpha1.PolicyTestRequest{Signer: "a.io/b", DNSNames: []string{"x"}}); err == nil || !strings.Contains(err.Error(), "ask.dnsNames is only for requests that the test creates") {
		t.Errorf("names for a file: %v", err)
	}
}
