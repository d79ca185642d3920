package acmeorder_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/policy/request"
)

const webAccount = "system:serviceaccount:shop:web"

func TestSigningRequest(t *testing.T) {
	e := endpoint(t)
	o := finalized(t, e, newKey(t), dns("a.corp.example")...)
	o.Spec.Address = "10.1.1.1"
	csr, err := acmeorder.SigningRequest(o, bound(), e.Profile("server"), 720*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	block, rest := pem.Decode(csr.Spec.Request)
	switch {
	case csr.Name != "acme-order1" || csr.Namespace != "" || len(csr.OwnerReferences) != 0:
		t.Errorf("%+v", csr.ObjectMeta)
	case block == nil || string(block.Bytes) != string(o.Status.CSR) || len(rest) != 0:
		t.Error("the certificate request is not that of the client")
	case csr.Spec.SignerName != "corp.example/hosts" || *csr.Spec.ExpirationSeconds != 720*3600:
		t.Errorf("%+v", csr.Spec)
	case !slices.Equal(csr.Spec.Usages, []certificatesv1.KeyUsage{"digital signature", "server auth"}):
		t.Errorf("usages of an ECDSA key: %v", csr.Spec.Usages)
	case csr.Annotations[v1alpha1.AcmeOrderAnnotation] != "shop/order1" || csr.Annotations[v1alpha1.AcmeExternalKeyAnnotation] != "shop/fleet" ||
		csr.Annotations[v1alpha1.AcmeAddressAnnotation] != "10.1.1.1" || csr.Annotations[v1alpha1.AcmeIdentifiersAnnotation] != "a.corp.example":
		t.Errorf("annotations: %v", csr.Annotations)
	case csr.Labels[v1alpha1.AcmeOrderLabel] != "order1" || csr.Labels[v1alpha1.AcmeAccountLabel] != "alice" || csr.Labels[v1alpha1.AcmeEndpointLabel] != "corp":
		t.Errorf("labels: %v", csr.Labels)
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	csr, err = acmeorder.SigningRequest(finalized(t, e, key, dns("a.corp.example")...), account(), e.Profile("server"), time.Hour)
	if err != nil || !slices.Contains(csr.Spec.Usages, "key encipherment") {
		t.Errorf("usages of an RSA key: %v, %v", csr, err)
	}
	if _, err := acmeorder.CertificateRequest(o, account(), e.Profile("server"), time.Hour); err == nil {
		t.Error("a CertificateRequest without an issuer")
	}
}

func TestCertificateRequest(t *testing.T) {
	e := endpoint(t)
	o := finalized(t, e, newKey(t), dns("a.corp.example")...)
	cr, err := acmeorder.CertificateRequest(o, account(), e.Profile("mesh"), 6*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if cr.Namespace != "shop" || cr.Name != "acme-order1" || cr.Spec.IssuerRef.Name != "mesh" || cr.Spec.Duration.Duration != 6*time.Hour || cr.Spec.IsCA {
		t.Errorf("%+v", cr)
	}
	if len(cr.OwnerReferences) != 1 || cr.OwnerReferences[0].UID != "order-uid" || cr.OwnerReferences[0].Kind != "AcmeOrder" {
		t.Errorf("owners: %v", cr.OwnerReferences)
	}
}

func TestLifetime(t *testing.T) {
	e := endpoint(t)
	server, mesh := e.Profile("server"), e.Profile("mesh")
	short := *mesh
	short.Lifetime.Default, short.Lifetime.Maximum = seconds(300), seconds(300)
	shortSigner := *server
	shortSigner.Lifetime.Default, shortSigner.Lifetime.Maximum = seconds(300), seconds(300)
	for _, tc := range []struct {
		reason   string
		profile  *v1alpha1.AcmeProfile
		notAfter time.Duration
		want     time.Duration
	}{
		{"default", mesh, 0, 6 * time.Hour},
		{"as asked", mesh, time.Hour, time.Hour},
		{"longer than the default", mesh, 12 * time.Hour, 12 * time.Hour},
		{"longer than the maximum, which has changed", mesh, 48 * time.Hour, 24 * time.Hour},
		{"too near", server, 9 * time.Minute, 0},
		{"near, of an issuer", mesh, 2 * time.Minute, 2 * time.Minute},
		{"a short profile of an issuer", &short, 0, 5 * time.Minute},
		{"a short profile of a signer", &shortSigner, 0, 10 * time.Minute},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			o := newOrder(t, e, dns("a.corp.example")...)
			if tc.notAfter != 0 {
				o.Spec.NotAfter = moment(now.Add(tc.notAfter))
			}
			got, p := acmeorder.Lifetime(o, tc.profile, now)
			if got != tc.want || (p != nil) != (tc.want == 0) {
				t.Errorf("%v, %v, want %v", got, p, tc.want)
			}
		})
	}
}

// stored returns the request of an order as the API server keeps it.
func stored(t *testing.T, e *acmeorder.Endpoint, o *v1alpha1.AcmeOrder, change func(*certificatesv1.CertificateSigningRequest)) request.Request {
	t.Helper()
	csr, err := acmeorder.SigningRequest(o, account(), e.Profile("server"), 720*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	csr.UID, csr.Spec.Username, csr.Spec.UID = "request-uid", webAccount, "web-uid"
	if change != nil {
		change(csr)
	}
	return request.FromCSR(csr)
}

func TestCheckRequest(t *testing.T) {
	e := endpoint(t)
	o := finalized(t, e, newKey(t), dns("a.corp.example")...)
	other := finalized(t, e, newKey(t), dns("a.corp.example")...)
	for _, tc := range []struct {
		reason string
		change func(*certificatesv1.CertificateSigningRequest)
		want   string
	}{
		{"ours", nil, ""},
		{"without labels", func(c *certificatesv1.CertificateSigningRequest) { c.Labels, c.Annotations = nil, nil }, ""},
		{"of another requester", func(c *certificatesv1.CertificateSigningRequest) { c.Spec.Username = "mallory" }, "requester"},
		{"of an earlier ServiceAccount", func(c *certificatesv1.CertificateSigningRequest) { c.Spec.UID = "old" }, "earlier"},
		{"with another certificate request", func(c *certificatesv1.CertificateSigningRequest) {
			c.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: other.Status.CSR})
		}, "differs from the order's"},
		{"with two blocks", func(c *certificatesv1.CertificateSigningRequest) {
			c.Spec.Request = append(c.Spec.Request, c.Spec.Request...)
		}, "differs from the order's"},
		{"of another signer", func(c *certificatesv1.CertificateSigningRequest) { c.Spec.SignerName = "x/y" }, "signer"},
		{"with more usages", func(c *certificatesv1.CertificateSigningRequest) {
			c.Spec.Usages = append(c.Spec.Usages, "client auth")
		}, "usages"},
		{"longer", func(c *certificatesv1.CertificateSigningRequest) { c.Spec.ExpirationSeconds = new(int32(721 * 3600)) }, "lifetime"},
		{"without a lifetime", func(c *certificatesv1.CertificateSigningRequest) { c.Spec.ExpirationSeconds = nil }, "lifetime"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			err := acmeorder.CheckRequest(o, account(), e.Profile("server"), stored(t, e, o, tc.change), "web-uid")
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

// An issuer reads a duration from an annotation, which whoever acts as the ServiceAccount can
// write.
func TestCheckRequestReadsAnnotations(t *testing.T) {
	const signer = "issuers.cert-manager.io/shop.ca"
	e := endpoint(t)
	profile := *e.Profile("server")
	profile.Signer = &v1alpha1.AcmeSigner{Name: signer}
	o := finalized(t, e, newKey(t), dns("a.corp.example")...)
	for duration, want := range map[string]string{"": "", "24h": "", "8760h": "lifetime", "a day": "invalid duration"} {
		r := stored(t, e, o, func(c *certificatesv1.CertificateSigningRequest) {
			c.Spec.SignerName = signer
			if duration != "" {
				c.Annotations[request.AnnotationDuration] = duration
			}
		})
		if err := acmeorder.CheckRequest(o, account(), &profile, r, "web-uid"); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", duration, err, want)
		}
	}
}

func TestNextRequestStep(t *testing.T) {
	e := endpoint(t)
	o := proven(t, e, newOrder(t, e, dns("a.corp.example")...))
	step := func(want acmeorder.RequestStep, uid string, at time.Time) {
		t.Helper()
		if got := acmeorder.NextRequestStep(o, uid, at); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
	step(acmeorder.RequestNone, "", now)
	o = changed(t, o, acmeorder.Finalize(o, csrFor(t, newKey(t), o, nil), acmeorder.Reference(o, e.Profile("server")), 168*time.Hour, now))
	step(acmeorder.RequestToMake, "", now)
	step(acmeorder.RequestToMake, "request-uid", now)
	step(acmeorder.RequestLost, "", now.Add(30*time.Minute))
	if acmeorder.NameAgain(o, now.Add(9*time.Minute)) != nil || acmeorder.NameAgain(o, now.Add(30*time.Minute)) != nil {
		t.Error("the name is written again too early, or too late to know that there was no request")
	}
	again := changed(t, o, acmeorder.NameAgain(o, now.Add(29*time.Minute)))
	if got := acmeorder.NextRequestStep(again, "", now.Add(58*time.Minute)); got != acmeorder.RequestToMake {
		t.Errorf("%v after the name was written again", got)
	}
	o = changed(t, o, acmeorder.RecordRequest(o, "request-uid", now))
	step(acmeorder.RequestMade, "request-uid", now.Add(24*time.Hour))
	step(acmeorder.RequestMade, "request-uid", now.Add(167*time.Hour)) // it waits for people until the order expires
	step(acmeorder.RequestLost, "", now)
	step(acmeorder.RequestLost, "another", now)
	step(acmeorder.RequestNone, "request-uid", now.Add(200*time.Hour))
}

func TestOrderKeyOf(t *testing.T) {
	for _, tc := range []struct {
		requester, namespace, name string
		possible                   bool
	}{
		{webAccount, "", "acme-order1", true},
		{webAccount, "shop", "acme-order1", true},
		{webAccount, "other", "acme-order1", false},
		{webAccount, "", "order1", false},
		{webAccount, "", "acme-", false},
		{"alice", "", "acme-order1", false},
	} {
		key, possible := acmeorder.OrderKeyOf(tc.requester, tc.namespace, tc.name)
		if possible != tc.possible || possible && key.String() != "shop/order1" {
			t.Errorf("%+v: %s, %v", tc, key, possible)
		}
	}
}
