package renewable_test

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/renewable"
	"github.com/certplane/certplane/internal/policy/request"
)

var now = time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// csr returns a request for www.example.com and shop.example.com.
func csr(t *testing.T, uid string, key crypto.Signer, change func(*certificatesv1.CertificateSigningRequest, *x509.CertificateRequest)) request.Request {
	t.Helper()
	object := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "web-" + uid, UID: types.UID(uid), CreationTimestamp: metav1.NewTime(now)},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: "a.io/b", Username: "alice", UID: "u", Usages: []certificatesv1.KeyUsage{"server auth", "digital signature"},
		},
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "web"}, DNSNames: []string{"www.example.com", "shop.example.com"}}
	if change != nil {
		change(object, template)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	object.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	return request.FromCSR(object)
}

func certificate(t *testing.T, key crypto.Signer, change func(*x509.Certificate)) []byte {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-5 * time.Minute), NotAfter: now.Add(24 * time.Hour), DNSNames: []string{"www.example.com"}}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// opens opens the votes of bob, whose sealed records are "bob".
func opens(of request.Request) quorum.OpenFunc {
	return func(text string) (quorum.Record, error) {
		if text != "bob" {
			return quorum.Record{}, errors.New("the seal does not verify")
		}
		return quorum.Record{Kind: of.Kind, Name: of.Name, UID: of.UID, Digest: quorum.Digest(of), User: "bob", Time: now, N: 1}, nil
	}
}

func TestEarlier(t *testing.T) {
	key := newKey(t)
	type object = certificatesv1.CertificateSigningRequest
	approved := quorum.Condition{Type: "Approved", Status: "True"}
	voted := quorum.Condition{Type: quorum.VoteType(1), Status: "True", Message: "bob approved (sealed bob)"}
	for _, tt := range []struct {
		reason     string
		next       func(*object, *x509.CertificateRequest)
		before     func(*object, *x509.CertificateRequest)
		cert       func(*x509.Certificate)
		conditions []quorum.Condition
		sameUID    bool
		want       string
	}{
		{reason: "the same with another key"},
		{reason: "the names in another order", next: func(_ *object, x *x509.CertificateRequest) {
			x.DNSNames = []string{"shop.example.com", "WWW.example.com"}
		}},
		{reason: "the usages in another order", next: func(o *object, _ *x509.CertificateRequest) {
			o.Spec.Usages = []certificatesv1.KeyUsage{"digital signature", "server auth"}
		}},
		{reason: "another lifetime, which the decision limits", next: func(o *object, _ *x509.CertificateRequest) { o.Spec.ExpirationSeconds = new(int32(900)) }},
		{reason: "itself", sameUID: true, want: "it is the request itself"},
		{reason: "another requester", next: func(o *object, _ *x509.CertificateRequest) { o.Spec.Username = "mallory" }, want: "it is of another owner"},
		{reason: "another user of this name", next: func(o *object, _ *x509.CertificateRequest) { o.Spec.UID = "v" }, want: "it is of another owner"},
		{reason: "another signer", next: func(o *object, _ *x509.CertificateRequest) { o.Spec.SignerName = "a.io/c" }, want: "it is of another owner"},
		{reason: "one name more", next: func(_ *object, x *x509.CertificateRequest) { x.DNSNames = append(x.DNSNames, "pay.example.com") }, want: "it is of another owner"},
		{reason: "another subject", next: func(_ *object, x *x509.CertificateRequest) { x.Subject.CommonName = "root" }, want: "it is of another owner"},
		{reason: "other usages", next: func(o *object, _ *x509.CertificateRequest) { o.Spec.Usages = append(o.Spec.Usages, "client auth") }, want: "it has other usages"},
		{reason: "another extension", next: func(_ *object, x *x509.CertificateRequest) {
			x.ExtraExtensions = []pkix.Extension{{Id: []int{1, 2, 3}, Value: []byte{5, 0}}}
		}, want: "it has other extensions"},
		{reason: "a CA", before: func(o *object, _ *x509.CertificateRequest) { o.Spec.Usages = append(o.Spec.Usages, "cert sign") }, want: "CA certificates are not renewed without people"},
		{reason: "the key in another Secret", next: func(o *object, _ *x509.CertificateRequest) {
			o.Annotations = map[string]string{request.AnnotationKey: "x"}
		}, want: "it is for the key in another Secret"},
		{reason: "not approved", conditions: []quorum.Condition{voted}, want: "it is not approved"},
		{reason: "failed", conditions: []quorum.Condition{approved, voted, {Type: "Failed", Status: "True"}}, want: "it is denied or has failed"},
		{reason: "approved by nobody", conditions: []quorum.Condition{approved}, want: "no approval by people verifies"},
		{reason: "a broken seal", conditions: []quorum.Condition{approved, {Type: quorum.VoteType(1), Status: "True", Message: "bob approved (sealed bab)"}}, want: "no approval by people verifies"},
		{reason: "a vote in another place", conditions: []quorum.Condition{approved, {Type: quorum.VoteType(2), Status: "True", Message: "bob approved (sealed bob)"}}, want: "no approval by people verifies"},
		{reason: "the certificate of a CA", cert: func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true }, want: "CA certificates are not renewed without people"},
	} {
		uid := "2"
		if tt.sameUID {
			uid = "1"
		}
		before, next := csr(t, "1", key, tt.before), csr(t, uid, newKey(t), tt.next)
		if tt.before != nil {
			next = csr(t, uid, newKey(t), tt.before)
		}
		if tt.conditions == nil {
			tt.conditions = []quorum.Condition{approved, voted}
		}
		s := &renewable.Stored{Request: before, Conditions: tt.conditions, Certificate: certificate(t, key, tt.cert)}
		got, err := renewable.Earlier(&next, s, opens(before))
		switch {
		case tt.want == "" && err != nil, tt.want != "" && (err == nil || err.Error() != tt.want):
			t.Errorf("%s: %v, want %q", tt.reason, err, tt.want)
		case err == nil && (got.Name != "web-1" || len(got.Votes) != 1 || !got.NotAfter.Time.Equal(now.Add(24*time.Hour)) || !got.NotBefore.Time.Equal(now.Add(-5*time.Minute))):
			t.Errorf("%s: %+v", tt.reason, got)
		}
	}
}

// A certificate is that of the request's key, and its lifetime does not begin long
// before the request.
func TestCertificate(t *testing.T) {
	key := newKey(t)
	before, next := csr(t, "1", key, nil), csr(t, "2", newKey(t), nil)
	conditions := []quorum.Condition{{Type: "Approved", Status: "True"}, {Type: quorum.VoteType(1), Status: "True", Message: "bob approved (sealed bob)"}}
	for reason, data := range map[string][]byte{"none": nil, "no certificate": []byte("x"), "of another key": certificate(t, newKey(t), nil)} {
		if got, err := renewable.Earlier(&next, &renewable.Stored{Request: before, Conditions: conditions, Certificate: data}, opens(before)); err == nil {
			t.Errorf("%s: %+v", reason, got)
		}
	}
	old := certificate(t, key, func(c *x509.Certificate) { c.NotBefore = now.AddDate(-10, 0, 0) })
	got, err := renewable.Earlier(&next, &renewable.Stored{Request: before, Conditions: conditions, Certificate: old}, opens(before))
	if err != nil || !got.NotBefore.Time.Equal(now.Add(-time.Hour)) {
		t.Errorf("a certificate that begins long before its request: %+v, %v", got, err)
	}
}

// Only the CA of the signer vouches for a certificate.
func TestCheckSignature(t *testing.T) {
	root := func(name string) *pki.Authority {
		made, err := pki.NewRoot(pki.UnrecordedSigning, name, newKey(t), 365*24*time.Hour, now)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	by, other := root("ca"), root("ca")
	key := newKey(t)
	before, next := csr(t, "1", key, nil), csr(t, "2", newKey(t), nil)
	conditions := []quorum.Condition{{Type: "Approved", Status: "True"}, {Type: quorum.VoteType(1), Status: "True", Message: "bob approved (sealed bob)"}}
	issued, err := by.Issue(pki.UnrecordedSigning, pki.Subject{CommonName: "web"}, key.Public(), pki.ServerUsages(), time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	got, err := renewable.Earlier(&next, &renewable.Stored{Request: before, Conditions: conditions, Certificate: pki.EncodeCertificates(issued...)}, opens(before))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		reason      string
		authorities []*x509.Certificate
		want        string
	}{
		{"its CA", []*x509.Certificate{other.Certificate(), by.Certificate()}, ""},
		{"another one", []*x509.Certificate{other.Certificate()}, "its certificate is not signed by its signer's CA"},
		{"none", nil, "it is not known which CA its signer has"},
	} {
		if err := got.CheckSignature(tt.authorities); (err == nil) != (tt.want == "") || err != nil && err.Error() != tt.want {
			t.Errorf("%s: %v, want %q", tt.reason, err, tt.want)
		}
	}
}
