package acme

import (
	"crypto/x509"
	"net"
	"net/url"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/policy/request"
)

const nameOfOrder = "shop/web-1-4205611296"

func TestSign(t *testing.T) {
	key := newKey(t)
	good := oneName(t, key)
	withCN := func(cn string, template x509.CertificateRequest) []byte {
		template.Subject.CommonName = cn
		return csrOf(t, key, template)
	}
	const names = "The CSR PEM requests a commonName that is not present in the list of dnsNames or ipAddresses. If a commonName is set, " +
		"ACME requires that the value is also present in the list of dnsNames or ipAddresses: "
	tests := []struct {
		reason string
		csr    []byte
		before func(*signWorld)
		want   string
	}{
		{"no Order yet", good, nil, "Pending OrderCreated: Created Order resource " + nameOfOrder},
		{"no CSR", []byte("x"), nil, "Failed RequestParsingError: Failed to decode CSR in spec.request: ..."},
		{"a common name alone", withCN("b.example.com", x509.CertificateRequest{DNSNames: []string{"a.example.com"}, IPAddresses: []net.IP{{192, 0, 2, 1}}}), nil,
			"Failed InvalidOrder: " + names + `"b.example.com" does not exist in [a.example.com] or [192.0.2.1]`},
		{"a common name in another case", withCN("A.example.com", x509.CertificateRequest{DNSNames: []string{"a.example.com"}}), nil, "Failed InvalidOrder: " + names + "..."},
		{"a common name that is an address", withCN("192.0.2.1", x509.CertificateRequest{IPAddresses: []net.IP{{192, 0, 2, 1}}}), nil, "Pending OrderCreated: ..."},
		{"the Order cannot be read", good, func(w *signWorld) { w.failOn["get"] = true },
			"Retry OrderGetError: Failed to get order resource " + nameOfOrder + ": the API is not available"},
		{"the Order cannot be created", good, func(w *signWorld) { w.failOn["create"] = true },
			"Retry OrderCreatingError: Failed create new order resource " + nameOfOrder + ": the API is not available"},
	}
	for _, tc := range tests {
		w := newSignWorld(t)
		if tc.before != nil {
			tc.before(w)
		}
		_, got := w.ofCR(t, certificateRequest("web-1", "uid-1", tc.csr))
		says(t, tc.reason, got, tc.want)
	}
}

// The Order of a request has all that is the request's, and its reference to the
// issuer as written.
func TestOrder(t *testing.T) {
	w := newSignWorld(t)
	cr := certificateRequest("web-1", "uid-1", oneName(t, newKey(t)))
	cr.Spec.Duration = &metav1.Duration{Duration: time.Hour} // does not count: the issuer does not say so
	w.ofCR(t, cr)
	got := w.orders(t)[0]
	want := acmev1.Order{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-1-4205611296", ResourceVersion: "1", Labels: cr.Labels, Annotations: cr.Annotations,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "cert-manager.io/v1", Kind: "CertificateRequest", Name: "web-1", UID: "uid-1", Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
		Spec: acmev1.OrderSpec{Request: cr.Spec.Request, IssuerRef: cr.Spec.IssuerRef, CommonName: "a.example.com", DNSNames: []string{"a.example.com"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	w = newSignWorld(t)
	w.issuer.Spec.ACME.EnableDurationFeature, w.issuer.Spec.ACME.Profile = true, "shortlived"
	w.ofCR(t, cr)
	if got := w.orders(t)[0]; got.Name != "web-1-1017511380" || got.Spec.Duration.Duration != time.Hour || got.Spec.Profile != "shortlived" {
		t.Errorf("%s: %+v", got.Name, got.Spec)
	}
	w = newSignWorld(t)
	cr.Annotations["acme.certplane.dev/profile"], cr.Spec.IssuerRef.Kind, cr.Spec.IssuerRef.Group = "tlsserver", "", ""
	w.ofCR(t, cr)
	if got := w.orders(t)[0].Spec; got.Profile != "tlsserver" || got.IssuerRef != (cmmeta.IssuerReference{Name: "le"}) {
		t.Errorf("%+v", got)
	}
}

func TestAnswer(t *testing.T) {
	key := newKey(t)
	state := func(s acmev1.State, reason string) func(*acmev1.OrderStatus) {
		return func(o *acmev1.OrderStatus) { o.State, o.Reason = s, reason }
	}
	with := func(certificate []byte) func(*acmev1.OrderStatus) {
		return func(o *acmev1.OrderStatus) { o.State, o.Certificate = acmev1.Valid, certificate }
	}
	const failed = `Failed OrderFailed: Failed to wait for order resource "web-1-4205611296" to become ready: order is in `
	const waiting = "Pending OrderPending: Waiting on certificate issuance from order " + nameOfOrder + ": "
	tests := []struct {
		reason   string
		status   func(*acmev1.OrderStatus)
		want     string
		class    string // one Event in a row
		replaced bool
	}{
		{reason: "new", class: "created", status: state("", ""), want: waiting + `""`},
		{reason: "an obstacle", status: state("", "no issuer"), want: waiting + `"" (no issuer)`},
		{reason: "limited", class: "limited", status: state("", "waiting until 2026-01-01T00:00:00Z because x"), want: waiting + `"" (waiting until 2026-01-01T00:00:00Z because x)`},
		{reason: "pending", class: "ordered", status: state("pending", "no solver"), want: waiting + `"pending" (no solver)`},
		{reason: "processing", class: "ordered", status: state("processing", ""), want: waiting + `"processing"`},
		{reason: "errored", status: state("errored", "Failed to create Order: acme: certificate authority does not advertise a profile with name unsupported-profile"),
			want: failed + `"errored" state: Failed to create Order: acme: certificate authority does not advertise a profile with name unsupported-profile`},
		{reason: "invalid", status: state("invalid", "caa"), want: failed + `"invalid" state: caa`},
		{reason: "expired", status: state("expired", "late"), want: failed + `"expired" state: late`},
		{reason: "no certificate yet", status: state("valid", ""), want: "Pending OrderPending: Waiting for order-controller to add certificate data to Order " + nameOfOrder},
		{reason: "valid", status: with(chainFor(t, key, nil)), want: "Issued"},
		{reason: "no certificate in it", status: with([]byte("x")), want: waiting + `"valid" (Deleting Order with bad certificate: ...`, replaced: true},
		{reason: "of another key", status: with(chainFor(t, newKey(t), nil)),
			want: waiting + `"valid" (Deleting Order as the signed certificate's key does not match the request)`, replaced: true},
		{reason: "of a CA", status: with(chainFor(t, key, func(c *x509.Certificate) { c.IsCA = true })),
			want: "Failed OrderBadCertificate: The certificate of Order " + nameOfOrder + " cannot be used: ..."},
	}
	for _, tc := range tests {
		w := newSignWorld(t)
		cr := certificateRequest("web-1", "uid-1", oneName(t, key))
		w.ofCR(t, cr)
		w.set(t, tc.status)
		certificate := w.orders(t)[0].Status.Certificate
		issued, got := w.ofCR(t, cr)
		says(t, tc.reason, got, tc.want)
		if o := w.orders(t); tc.class != "" && classOf(&o[0]) != tc.class {
			t.Errorf("%s: of class %q, not %q", tc.reason, classOf(&o[0]), tc.class)
		}
		if issued != nil && (string(issued.PEM) != string(certificate) || len(issued.CA) > 0 || issued.Certificate == nil || len(issued.Warnings) > 0) {
			t.Errorf("%s: %+v", tc.reason, issued)
		}
		if left := len(w.orders(t)); (left == 0) != tc.replaced {
			t.Errorf("%s: %d Orders are left", tc.reason, left)
		}
	}
}

// A request keeps its Order even if the issuer changes.
func TestOneOrder(t *testing.T) {
	w := newSignWorld(t)
	cr := certificateRequest("web-1", "uid-1", oneName(t, newKey(t)))
	w.ofCR(t, cr)
	w.issuer.Spec.ACME.Profile = "shortlived"
	_, got := w.ofCR(t, cr)
	says(t, "another profile", got, "Pending OrderPending: Waiting on certificate issuance from order "+nameOfOrder+`: ""`)
	if len(w.orders(t)) != 1 {
		t.Error("there is a second Order")
	}
}

// The Order of an earlier request of the same name blocks the new one until it
// is deleted, which wakes the new one.
func TestBlocked(t *testing.T) {
	w := newSignWorld(t)
	csr := oneName(t, newKey(t))
	w.ofCR(t, certificateRequest("web-1", "uid-1", csr))
	again := certificateRequest("web-1", "uid-2", csr)
	_, got := w.ofCR(t, again)
	says(t, "an earlier request", got, "Pending OrderBlocked: Waiting for the deletion of Order "+nameOfOrder+", which is of an earlier CertificateRequest of this name")
	old := w.orders(t)[0]
	asked, err := issuing.RequestOf(request.FromCertificateRequest(again))
	must(t, err)
	if diff := cmp.Diff(OrderWatch.References(&old), w.Needs(w.issuer, asked)); diff != "" {
		t.Errorf("the deletion does not wake the request: %s", diff)
	}
	must(t, w.api.Delete(t.Context(), &old))
	_, got = w.ofCR(t, again)
	says(t, "once it is gone", got, "Pending OrderCreated: Created Order resource "+nameOfOrder)

	w = newSignWorld(t)
	must(t, w.api.Create(t.Context(), &acmev1.Order{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1-4205611296"}}))
	_, got = w.ofCR(t, again)
	says(t, "of nobody", got, "Retry OrderBlocked: The Order "+nameOfOrder+" is not owned by this CertificateRequest; delete it")
}

// A CertificateSigningRequest gets an Order too, in the namespace of the issuer
// or of the cluster's resources.
func TestCertificateSigningRequest(t *testing.T) {
	key := newKey(t)
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "web-1", UID: "uid-1", Labels: map[string]string{"l": "1"}, Annotations: map[string]string{
			"acme.certplane.dev/profile": "tlsserver", "kubectl.kubernetes.io/last-applied-configuration": "{}",
		}},
		Spec: certificatesv1.CertificateSigningRequestSpec{Request: oneName(t, key), SignerName: "clusterissuers.cert-manager.io/le"},
	}
	w := newSignWorld(t)
	w.issuer.Spec.ACME.EnableDurationFeature = true
	w.copied = func(all map[string]string) map[string]string {
		return map[string]string{"acme.certplane.dev/profile": all["acme.certplane.dev/profile"]}
	}
	_, got := w.sign(t, request.FromCSR(csr))
	says(t, "new", got, "Pending OrderCreated: Created Order resource cert-manager/web-1-...")
	o := w.orders(t)[0]
	if o.Spec.Profile != "tlsserver" || o.Spec.Duration.Duration != cmv1.DefaultCertificateDuration || len(o.Annotations) != 1 || o.Labels["l"] != "1" ||
		o.Spec.IssuerRef != (cmmeta.IssuerReference{Name: "le", Kind: "ClusterIssuer", Group: "cert-manager.io"}) {
		t.Errorf("%+v", o)
	}
	asked, err := issuing.RequestOf(request.FromCSR(csr))
	must(t, err)
	if diff := cmp.Diff(OrderWatch.References(&o), w.Needs(w.issuer, asked)); diff != "" {
		t.Errorf("the Order does not wake the request: %s", diff)
	}
	w.set(t, func(s *acmev1.OrderStatus) { s.State, s.Reason = acmev1.Errored, "no" })
	_, got = w.sign(t, request.FromCSR(csr))
	says(t, "failed", got, `Failed OrderFailed: Failed to wait for order resource cert-manager/`+o.Name+` to become ready: order is in "errored" state: no`)
	w.set(t, func(s *acmev1.OrderStatus) { s.State, s.Certificate = acmev1.Valid, chainFor(t, newKey(t), nil) })
	_, got = w.sign(t, request.FromCSR(csr))
	says(t, "of another key", got, "Pending OrderBadCertificate: Deleting Order as the signed certificate's key does not match the request")
}

// The requester learns what the CA has left out.
func TestIgnored(t *testing.T) {
	key := newKey(t)
	w := newSignWorld(t)
	cr := certificateRequest("web-1", "uid-1", csrOf(t, key, x509.CertificateRequest{
		DNSNames: []string{"a.example.com"}, EmailAddresses: []string{"a@example.com"}, URIs: []*url.URL{{Scheme: "spiffe", Host: "x"}},
	}))
	cr.Spec.Usages, cr.Spec.IsCA = []cmv1.KeyUsage{"digital signature", "client auth", "cert sign"}, true
	w.ofCR(t, cr)
	w.set(t, func(s *acmev1.OrderStatus) { s.State, s.Certificate = acmev1.Valid, chainFor(t, key, nil) })
	issued, got := w.ofCR(t, cr)
	says(t, "issued", got, "Issued")
	want := []signer.Warning{{Reason: "RequestFieldsIgnored", Message: "The CA has omitted requested content from the certificate: isCA, extended key usages, e-mail addresses, URIs"}}
	if issued == nil || cmp.Diff(want, issued.Warnings) != "" {
		t.Errorf("%+v", issued)
	}
}

// An Order names the certificate that it replaces if that is of the same issuer.
func TestReplaces(t *testing.T) {
	old := chainFor(t, newKey(t), func(c *x509.Certificate) { c.AuthorityKeyId = []byte{1, 2, 3} })
	tests := []struct {
		reason string
		change func(*corev1.Secret)
		want   string
	}{
		{"the same issuer", func(*corev1.Secret) {}, "AQID.AIdlQyE"},
		{"another issuer", func(s *corev1.Secret) { s.Annotations[cmv1.IssuerNameAnnotationKey] = "other" }, ""},
		{"no certificate", func(s *corev1.Secret) { s.Data = nil }, ""},
		{"another name", func(s *corev1.Secret) { s.Name = "other" }, ""},
	}
	for _, tc := range tests {
		w := newSignWorld(t)
		must(t, w.api.Create(t.Context(), &cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: cmv1.CertificateSpec{SecretName: "web-tls"}}))
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-tls", Annotations: map[string]string{
				cmv1.IssuerNameAnnotationKey: "le", cmv1.IssuerKindAnnotationKey: "ClusterIssuer",
			}},
			Data: map[string][]byte{"tls.crt": old},
		}
		tc.change(secret)
		must(t, w.api.Create(t.Context(), secret))
		cr := certificateRequest("web-1", "uid-1", oneName(t, newKey(t)))
		cr.Annotations[cmv1.CertificateNameKey] = "web"
		w.ofCR(t, cr)
		if got := w.orders(t)[0].Spec.Replaces; got != tc.want {
			t.Errorf("%s: %q", tc.reason, got)
		}
	}
}
