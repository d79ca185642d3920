package certmanager_test

import (
	"crypto/elliptic"
	"encoding/asn1"
	"fmt"
	"slices"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var someIssuer = cmmeta.IssuerReference{Name: "ca"}

// The requests of "cmctl check api".
func TestCheckAPI(t *testing.T) {
	w := start(t)
	cr := newRequest(t, "check", someIssuer)
	cr.Spec.Request = newCSR(t, newKey(t, elliptic.P521()), ext(t, basicConstraints, struct {
		IsCA bool `asn1:"optional"`
	}{}))
	if err := w.admin.Create(t.Context(), cr.DeepCopy(), client.DryRunAll); err != nil {
		t.Errorf("a request that is right: %v", err)
	}
	answer := cr.DeepCopy()
	if err := w.admin.Create(t.Context(), answer, client.DryRunAll); err != nil || answer.Spec.Username == "" && answer.Spec.UID == "" {
		t.Errorf("the answer does not say who asks: %+v, %v", answer.Spec, err)
	}
	cr.Spec.Request = []byte("invalid-csr")
	refused(t, w.admin.Create(t.Context(), cr, client.DryRunAll), "spec.request: Invalid value")
}

// A request always has the identity of the user who creates it, whatever its
// content.
func TestRequester(t *testing.T) {
	w := start(t)
	user := w.user("alice")
	w.Grant(t, user, rule("create get update", "certificaterequests"))
	cfg := w.As(t, user, "team-a", "team-b")
	cfg.Impersonate.UID = "1234"
	cfg.Impersonate.Extra = map[string][]string{"example.com/tenant": {"blue", "green"}}
	alice := w.connect(t, cfg)

	cr := newRequest(t, "mine", someIssuer)
	cr.Spec.Username, cr.Spec.UID, cr.Spec.Groups = "mallory", "0", []string{"system:masters"}
	cr.Spec.Extra = map[string][]string{"more": {"rights"}}
	create(t, alice, cr)
	if cr.Spec.Username != user || cr.Spec.UID != "1234" {
		t.Errorf("the request is of %q, %q", cr.Spec.Username, cr.Spec.UID)
	}
	if !slices.Contains(cr.Spec.Groups, "team-a") || !slices.Contains(cr.Spec.Groups, "team-b") || slices.Contains(cr.Spec.Groups, "system:masters") {
		t.Errorf("groups: %v", cr.Spec.Groups)
	}
	if got := fmt.Sprint(cr.Spec.Extra); got != "map[example.com/tenant:[blue green]]" {
		t.Errorf("extra: %v", got)
	}

	for name, change := range map[string]func(*cmv1.CertificateRequestSpec){
		"username": func(spec *cmv1.CertificateRequestSpec) { spec.Username = "bob" },
		"uid":      func(spec *cmv1.CertificateRequestSpec) { spec.UID = "" },
		"groups":   func(spec *cmv1.CertificateRequestSpec) { spec.Groups = []string{"system:masters"} },
		"extra":    func(spec *cmv1.CertificateRequestSpec) { spec.Extra["example.com/tenant"] = []string{"blue"} },
	} {
		changed := cr.DeepCopy()
		change(&changed.Spec)
		refused(t, alice.Update(t.Context(), changed), "spec."+name+": Forbidden: "+name+" identity cannot be changed once set")
	}

	nobody := newRequest(t, "without-extra", someIssuer)
	nobody.Spec.Extra = map[string][]string{"more": {"rights"}}
	if create(t, w.as(t, w.user("bob"), rule("create", "certificaterequests")), nobody); nobody.Spec.Extra != nil {
		t.Errorf("somebody without extra has %v", nobody.Spec.Extra)
	}
}

// The content of a request must match its fields.
func TestUsagesMustMatch(t *testing.T) {
	w := start(t)
	key := newKey(t, elliptic.P256())
	signatures := ext(t, keyUsage, asn1.BitString{Bytes: []byte{0x80}, BitLength: 1})
	tests := []struct {
		reason string
		edit   func(*cmv1.CertificateRequestSpec)
		want   string
	}{
		{
			"bits that nobody asked for",
			func(spec *cmv1.CertificateRequestSpec) { spec.Request = newCSR(t, key, signatures) },
			"encoded CSR error: the KeyUsages [ 'digital signature' ] do not match the expected KeyUsages [ 'digital signature', 'key encipherment' ]",
		},
		{
			"a purpose that nobody asked for",
			func(spec *cmv1.CertificateRequestSpec) {
				spec.Request = newCSR(t, key, signatures, ext(t, extKeyUsage, []asn1.ObjectIdentifier{serverAuth}))
				spec.Usages = []cmv1.KeyUsage{cmv1.UsageDigitalSignature}
			},
			"encoded CSR error: the ExtKeyUsages [ 'server auth' ] do not match the expected ExtKeyUsages []",
		},
		{
			"a CA that nobody asked for",
			func(spec *cmv1.CertificateRequestSpec) {
				spec.Request = newCSR(t, key, ext(t, basicConstraints, struct {
					IsCA bool `asn1:"optional"`
				}{true}))
			},
			"encoded CSR error: IsCA true does not match expected value false",
		},
		{
			"purposes in another order",
			func(spec *cmv1.CertificateRequestSpec) {
				spec.Request = newCSR(t, key, signatures, ext(t, extKeyUsage, []asn1.ObjectIdentifier{clientAuth, serverAuth}))
				spec.Usages = []cmv1.KeyUsage{cmv1.UsageServerAuth, cmv1.UsageClientAuth, cmv1.UsageSigning}
			},
			"",
		},
		{
			"the request leaves it to the fields",
			func(spec *cmv1.CertificateRequestSpec) { spec.Usages = []cmv1.KeyUsage{cmv1.UsageServerAuth} },
			"",
		},
	}
	for i, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			cr := newRequest(t, fmt.Sprintf("r%d", i), someIssuer)
			tc.edit(&cr.Spec)
			err := w.admin.Create(t.Context(), cr)
			if tc.want != "" {
				refused(t, err, tc.want)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// A request cannot change after it has been approved.
func TestRequestsDoNotChange(t *testing.T) {
	w := start(t)
	cr := newRequest(t, "fixed", someIssuer)
	cr.Annotations = map[string]string{
		"cert-manager.io/private-key-secret-name": "key",
		"acme.cert-manager.io/anything":           "here",
		"venafi.cert-manager.io/pickup-id":        "1",
	}
	create(t, w.admin, cr)
	tests := []struct {
		reason string
		edit   func(*cmv1.CertificateRequest)
		want   string
	}{
		{"spec", func(cr *cmv1.CertificateRequest) { cr.Spec.IssuerRef.Name = "other" }, "spec: Forbidden: cannot change spec after creation"},
		{"a default is a change", func(cr *cmv1.CertificateRequest) { cr.Spec.IssuerRef.Kind = "Issuer" }, "spec: Forbidden: cannot change spec after creation"},
		{
			"annotation changed", func(cr *cmv1.CertificateRequest) { cr.Annotations["cert-manager.io/private-key-secret-name"] = "other" },
			"metadata.annotations.cert-manager.io/private-key-secret-name: Forbidden: cannot change cert-manager annotation after creation",
		},
		{
			"annotation removed", func(cr *cmv1.CertificateRequest) { delete(cr.Annotations, "acme.cert-manager.io/anything") },
			"metadata.annotations.acme.cert-manager.io/anything: Forbidden: cannot change cert-manager annotation after creation",
		},
		{
			"annotation added", func(cr *cmv1.CertificateRequest) { cr.Annotations["cert-manager.io/certificate-name"] = "web" },
			"metadata.annotations.cert-manager.io/certificate-name: Forbidden: cannot change cert-manager annotation after creation",
		},
		{"annotations of signers are free", func(cr *cmv1.CertificateRequest) {
			cr.Annotations["venafi.cert-manager.io/pickup-id"] = "2"
			cr.Annotations["experimental.cert-manager.io/x"] = "y"
		}, ""},
		{"labels and finalizers are free", func(cr *cmv1.CertificateRequest) {
			cr.Labels = map[string]string{"a": "b"}
			cr.Finalizers = []string{"example.com/f"}
		}, ""},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			changed := cr.DeepCopy()
			tc.edit(changed)
			// A patch is an update, too.
			err := w.admin.Patch(t.Context(), changed, client.MergeFrom(cr))
			if tc.want != "" {
				refused(t, err, tc.want)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	var stored cmv1.CertificateRequest
	if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(cr), &stored); err != nil {
		t.Fatal(err)
	}
	if ref := stored.Spec.IssuerRef; ref != someIssuer {
		t.Errorf("the reference is stored as %+v", ref)
	}
}

// Clients find the requests of an issuer by the stored fields, which have no
// defaults.
func TestRequestsOfAnIssuer(t *testing.T) {
	w := start(t)
	create(t, w.admin, newRequest(t, "one", cmmeta.IssuerReference{Name: "ca"}))
	create(t, w.admin, newRequest(t, "two", cmmeta.IssuerReference{Name: "ca", Kind: "ClusterIssuer", Group: "cert-manager.io"}))
	tests := []struct{ selector, want string }{
		{"spec.issuerRef.name=ca", "[one two]"},
		{"spec.issuerRef.kind=ClusterIssuer", "[two]"},
		{"spec.issuerRef.group=cert-manager.io", "[two]"},
		{"spec.issuerRef.kind=Issuer", "[]"},
	}
	for _, tc := range tests {
		var list cmv1.CertificateRequestList
		if err := w.admin.List(t.Context(), &list, &client.ListOptions{Raw: &metav1.ListOptions{FieldSelector: tc.selector}}); err != nil {
			t.Errorf("%s: %v", tc.selector, err)
			continue
		}
		names := []string{}
		for _, cr := range list.Items {
			names = append(names, cr.Name)
		}
		if got := fmt.Sprint(names); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.selector, got, tc.want)
		}
	}
}
