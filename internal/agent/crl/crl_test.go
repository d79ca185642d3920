package crl

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"strings"
	"testing"
	"time"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/agent/manifests"
	"github.com/certplane/certplane/internal/revocation"
)

var noon = time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)

// authority returns the list of a CA, and a certificate that the CA has signed.
func authority(t *testing.T, name string) (revocation.Published, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	issue := func(template, parent *x509.Certificate) *x509.Certificate {
		template.NotBefore, template.NotAfter = noon.Add(-time.Hour), noon.Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	ca := issue(template, template)
	return revocation.Published{RevocationList: &inventoryv1alpha1.RevocationList{Subject: ca.Subject.String()}, Chain: []*x509.Certificate{ca}},
		issue(&x509.Certificate{SerialNumber: big.NewInt(2)}, ca)
}

func TestChoose(t *testing.T) {
	present, leaf := authority(t, "present")
	former, old := authority(t, "former")
	root, _ := authority(t, "root")
	_, strange := authority(t, "strange")
	own, both := []revocation.Published{present}, []revocation.Published{present, former}
	for _, tt := range []struct {
		reason string
		found  revocation.SignerLists
		der    bool
		own    []*x509.Certificate
		at     time.Time
		want   string
	}{
		{reason: "all", found: revocation.SignerLists{Own: both, Above: []revocation.Published{root}}, own: []*x509.Certificate{leaf}, want: "CN=present CN=former CN=root"},
		{reason: "the issuing CA", found: revocation.SignerLists{Own: both, Above: []revocation.Published{root}}, der: true, own: []*x509.Certificate{old}, want: "CN=former"},
		{reason: "one CA", found: revocation.SignerLists{Own: own, Above: []revocation.Published{root}}, der: true, want: "CN=present"},
		{reason: "several CAs", found: revocation.SignerLists{Own: both}, der: true, want: "several CAs, but a DER file holds one list"},
		{reason: "no CA", want: "no list of a CA of the signer example.com/s"},
		{reason: "a CA without a list", found: revocation.SignerLists{Own: own, Missing: []string{"CN=root"}}, own: []*x509.Certificate{strange},
			want: "no list of CN=strange, CN=root: sign one with certplane crl sign"},
		{reason: "an ended certificate", found: revocation.SignerLists{Own: own}, own: []*x509.Certificate{strange}, at: noon.Add(2 * time.Hour), want: "CN=present"},
		{reason: "another root", found: revocation.SignerLists{Untrusted: []string{"CN=present"}}, want: "the ClusterTrustBundles of the signer example.com/s do not include that of CN=present"},
		{reason: "the root of a former CA", found: revocation.SignerLists{Own: own, Untrusted: []string{"CN=former"}}, own: []*x509.Certificate{leaf}, want: "CN=present"},
		{reason: "the root of the issuing CA", found: revocation.SignerLists{Own: own, Untrusted: []string{"CN=former"}}, own: []*x509.Certificate{old}, want: "do not include that of CN=former"},
	} {
		at := noon
		if !tt.at.IsZero() {
			at = tt.at
		}
		lists, err := choose(tt.found, manifests.RevocationLists{Signer: "example.com/s", DER: tt.der}, tt.own, at)
		var names []string
		for _, list := range lists {
			names = append(names, list.Subject)
		}
		if got := strings.Join(names, " "); err == nil && got != tt.want || err != nil && (got != "" || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %s, %v; want %s", tt.reason, got, err, tt.want)
		}
	}
}

func TestOverdue(t *testing.T) {
	list := func(validity time.Duration) *x509.RevocationList {
		return &x509.RevocationList{Issuer: pkix.Name{CommonName: "ca"}, ThisUpdate: noon, NextUpdate: noon.Add(validity)}
	}
	const day = 24 * time.Hour
	for _, tt := range []struct {
		reason string
		lists  []*x509.RevocationList
		at     time.Duration
		want   string
	}{
		{"none", nil, 0, ""},
		{"half", []*x509.RevocationList{list(8 * day), list(6 * day)}, 3 * day, ""},
		{"more than half", []*x509.RevocationList{list(8 * day), list(6 * day)}, 3*day + 1, "the list of CN=ca ends at 2030-05-23T12:00:00Z, and a newer one has not come"},
		{"the end", []*x509.RevocationList{list(6 * day)}, 6 * day, "the list of CN=ca ended at 2030-05-23T12:00:00Z: programs that check it refuse all certificates of this CA"},
		{"years", []*x509.RevocationList{list(3650 * day)}, 3619 * day, ""},
		{"a month is left", []*x509.RevocationList{list(3650 * day)}, 3621 * day, "the list of CN=ca ends at 2040-05-14T12:00:00Z, and a newer one has not come"},
	} {
		if got := (File{Lists: tt.lists}).Overdue(noon.Add(tt.at)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.reason, got, tt.want)
		}
	}
}
