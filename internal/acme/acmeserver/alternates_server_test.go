package acmeserver_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// Each chain of a certificate links to the others (RFC 8555 section 7.4.2).
func TestAlternateChains(t *testing.T) {
	w := newWorld(t, externalKeyOnly, func(e *v1alpha1.AcmeEndpoint) { e.Spec.Approval.FinalizeWait.Duration = time.Second })
	mac := w.externalKey("fleet", func(k *v1alpha1.AcmeExternalKey) {
		k.Spec.Preauthorized = &v1alpha1.AcmePreauthorized{DNS: []string{"*.corp.example"}}
	})
	c := w.client()
	c.register(map[string]any{"externalAccountBinding": c.binding(w.namespace+".fleet", mac)})
	url, _ := c.order("a.corp.example")
	c.post(url+"/finalize", map[string]any{"csr": csr(t, apitest.NewKey(t), "a.corp.example")})
	w.issue(url)
	o := w.stored(url)
	var cas []string
	for range 2 {
		ca, err := pki.NewRoot(pki.UnrecordedSigning, "another", apitest.NewKey(t), time.Hour, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		cas = append(cas, string(pki.EncodeCertificates(ca.Certificate())))
	}
	o.Status.Certificate.Alternates = cas
	if err := w.api.Status().Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	first := c.post(url, nil).json(t)["certificate"].(string)
	urls := []string{first, first + "/1", first + "/2"}
	leaf, _, _ := strings.Cut(o.Status.Certificate.Chain, "-----END")
	for i, at := range urls {
		r := c.post(at, nil)
		if r.code != 200 || !strings.HasPrefix(r.body, leaf) || i > 0 && !strings.HasSuffix(r.body, "-----END CERTIFICATE-----\n"+cas[i-1]) {
			t.Errorf("%s: %d %s", at, r.code, r.body)
		}
		if certs, err := pki.ParseCertificates([]byte(r.body)); err != nil || len(certs) != 2 {
			t.Errorf("%s: %v", at, err)
		}
		for j, other := range urls {
			if linked := slices.Contains(r.header.Values("Link"), "<"+other+`>;rel="alternate"`); linked != (i != j) {
				t.Errorf("%s: the links are %v", at, r.header.Values("Link"))
			}
		}
	}
	for _, none := range []string{"/0", "/3", "/01", "/-1", "/x", "/18446744073709551617"} {
		if r := c.post(first+none, nil); r.code != 404 {
			t.Errorf("%s: %d", none, r.code)
		}
	}
	other := w.client()
	other.register(map[string]any{"externalAccountBinding": other.binding(w.namespace+".fleet", mac)})
	if r := other.post(first+"/1", nil); r.code != 404 {
		t.Errorf("of another account: %d", r.code)
	}
}
