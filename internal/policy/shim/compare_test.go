package shim

import (
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func wantedCertificate() *cmv1.Certificate {
	return &cmv1.Certificate{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}, Annotations: map[string]string{Mark: "1"}},
		Spec: cmv1.CertificateSpec{
			SecretName: "web", DNSNames: []string{"a", "b"}, IssuerRef: cmmeta.IssuerReference{Name: "ca", Kind: "Issuer", Group: "cert-manager.io"},
			Usages: cmv1.DefaultKeyUsages(),
		},
	}
}

// A Certificate that certplane has written is changed for every difference; one of cert-manager
// only for those that cert-manager compares, because each change can issue it again.
func TestChanged(t *testing.T) {
	for _, tt := range []struct {
		reason       string
		change       func(*cmv1.Certificate)
		ours, theirs bool
	}{
		{"nothing", func(*cmv1.Certificate) {}, false, false},
		{"a label", func(c *cmv1.Certificate) { c.Labels["x"] = "y" }, true, true},
		{"commonName", func(c *cmv1.Certificate) { c.Spec.CommonName = "x" }, true, true},
		{"order of dnsNames", func(c *cmv1.Certificate) { c.Spec.DNSNames = []string{"b", "a"} }, true, true},
		{"secretName", func(c *cmv1.Certificate) { c.Spec.SecretName = "x" }, true, true},
		{"name of the issuer", func(c *cmv1.Certificate) { c.Spec.IssuerRef.Name = "x" }, true, true},
		{"kind of the issuer", func(c *cmv1.Certificate) { c.Spec.IssuerRef.Kind = "ClusterIssuer" }, true, true},
		{"revisionHistoryLimit", func(c *cmv1.Certificate) { c.Spec.RevisionHistoryLimit = new(int32(3)) }, true, true},
		{"a key", func(c *cmv1.Certificate) { c.Spec.PrivateKey = &cmv1.CertificatePrivateKey{Algorithm: "ECDSA"} }, true, true},
		{"an empty key", func(c *cmv1.Certificate) { c.Spec.PrivateKey = &cmv1.CertificatePrivateKey{} }, false, false},
		{"duration", func(c *cmv1.Certificate) { c.Spec.Duration = &metav1.Duration{Duration: time.Hour} }, true, true},
		{"renewBefore", func(c *cmv1.Certificate) { c.Spec.RenewBefore = &metav1.Duration{Duration: time.Hour} }, true, true},
		{"ipAddresses", func(c *cmv1.Certificate) { c.Spec.IPAddresses = []string{"::1"} }, true, false},
		{"emailAddresses", func(c *cmv1.Certificate) { c.Spec.EmailAddresses = []string{"x"} }, true, false},
		{"usages", func(c *cmv1.Certificate) { c.Spec.Usages = []cmv1.KeyUsage{"server auth"} }, true, false},
		{"subject", func(c *cmv1.Certificate) { c.Spec.Subject = &cmv1.X509Subject{SerialNumber: "1"} }, true, false},
		{"secretTemplate", func(c *cmv1.Certificate) { c.Spec.SecretTemplate = &cmv1.CertificateSecretTemplate{} }, true, false},
		{"renewBeforePercentage", func(c *cmv1.Certificate) { c.Spec.RenewBeforePercentage = new(int32(3)) }, true, false},
		{"group of the issuer", func(c *cmv1.Certificate) { c.Spec.IssuerRef.Group = "x" }, true, false},
		{"default group of the issuer", func(c *cmv1.Certificate) { c.Spec.IssuerRef.Group = "" }, false, false},
		{"an override", func(c *cmv1.Certificate) { c.Annotations[acmev1.ACMECertificateHTTP01IngressClassOverride] = "x" }, true, false},
		{"annotation of a user", func(c *cmv1.Certificate) { c.Annotations["x"] = "y" }, false, false},
		{"keystores", func(c *cmv1.Certificate) { c.Spec.Keystores = &cmv1.CertificateKeystores{} }, false, false},
	} {
		ours := wantedCertificate()
		tt.change(ours)
		theirs := ours.DeepCopy()
		delete(theirs.Annotations, Mark)
		for stored, want := range map[*cmv1.Certificate]bool{ours: tt.ours, theirs: tt.theirs} {
			if got := Changed(stored, wantedCertificate()) != nil; got != want {
				t.Errorf("%s: %v is changed: %t", tt.reason, stored.Annotations, got)
			}
			// Its digest in the cache shows the same.
			if IsCurrent(Digest(stored, stored.Annotations[Mark] != "", nil), wantedCertificate(), nil) == want {
				t.Errorf("%s: %v: by its digest it is current: %t", tt.reason, stored.Annotations, !want)
			}
		}
	}
}

// The size of an Ed25519 key is not compared for a Certificate of cert-manager.
func TestEd25519Size(t *testing.T) {
	stored, wanted := wantedCertificate(), wantedCertificate()
	delete(stored.Annotations, Mark)
	stored.Spec.PrivateKey = &cmv1.CertificatePrivateKey{Algorithm: "Ed25519", Size: 1}
	wanted.Spec.PrivateKey = &cmv1.CertificatePrivateKey{Algorithm: "Ed25519"}
	if Changed(stored, wanted) != nil {
		t.Error("it is changed")
	}
}

// A change keeps what no annotation can set, and removes overrides that are not requested.
func TestMerge(t *testing.T) {
	stored := wantedCertificate()
	delete(stored.Annotations, Mark)
	stored.Labels, stored.Spec.CommonName, stored.Spec.IsCA = nil, "x", true
	stored.Spec.Keystores = &cmv1.CertificateKeystores{}
	stored.Annotations["x"] = "y"
	stored.Annotations[acmev1.ACMECertificateHTTP01IngressNameOverride] = "web"
	stored.Annotations[cmv1.IssueTemporaryCertificateAnnotation] = "true"
	stored.Annotations[acmev1.ACMECertificateHTTP01ParentRefNamespace] = "shop"
	want := wantedCertificate()
	want.Annotations["x"] = "y"
	want.Spec.IsCA, want.Spec.Keystores = true, &cmv1.CertificateKeystores{}
	if diff := cmp.Diff(want, Changed(stored, wantedCertificate())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	user := wantedCertificate()
	user.Annotations[cmv1.IssueTemporaryCertificateAnnotation] = "true"
	if next := Changed(user, wantedCertificate()); next != nil {
		t.Errorf("the annotation of a user is removed: %v", next.Annotations)
	}
}
