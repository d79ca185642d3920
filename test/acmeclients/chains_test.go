package acmeclients

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/apitest/docpage"
)

// testChains has certbot choose the chain to a root that has signed the CA of the signer,
// and take the default chain if it names none.
func testChains(t *testing.T, w *world) {
	const signer, elder = "certplane.dev/acme-hosts", "Elder Root"
	own := &certificatesv1beta1.ClusterTrustBundleList{}
	w.until(t, "the root of the signer is published", func() bool {
		return w.admin.List(t.Context(), own, client.MatchingFields{"spec.signerName": signer}) == nil && len(own.Items) == 1
	})
	crossed := crossSigned(t, elder, own.Items[0].Spec.TrustBundle)
	bundle := &certificatesv1beta1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: strings.ReplaceAll(signer, "/", ":") + ":elder"},
		Spec:       certificatesv1beta1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: crossed},
	}
	if err := w.admin.Create(t.Context(), bundle); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.admin.Delete(t.Context(), bundle) })
	if err := find("certbot"); err != nil {
		t.Skipf("not run: %v", err)
	}
	for _, c := range docpage.Commands(section(t, "acme-clients.md", "Another chain")) {
		w.until(t, "certbot has the chain to the elder root", func() bool { return w.chainBy(t, c.Line) == elder }) // roots are kept for a while
		if last := w.chainBy(t, strings.Replace(c.Line, "--preferred-chain '"+elder+"'", "", 1)); last == elder || last == "" {
			t.Errorf("without the option, the chain is to %q", last)
		}
	}
}

// chainBy runs a certbot command in a separate folder, and returns the common name of the
// issuer of the chain's last certificate.
func (w *world) chainBy(t *testing.T, line string) string {
	t.Helper()
	dir := t.TempDir()
	w.run(t, dir, strings.TrimSpace(line)+" --config-dir certbot")
	files, err := filepath.Glob(filepath.Join(dir, "certbot/live/*/fullchain.pem"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return lastIssuer(t, text)
}

// crossSigned returns a certificate for the CA in PEM by a root of another name.
func crossSigned(t *testing.T, name, ca string) string {
	t.Helper()
	block, _ := pem.Decode([]byte(ca))
	template, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, SubjectKeyId: []byte{1}}
	template.AuthorityKeyId = nil
	der, err := x509.CreateCertificate(rand.Reader, template, root, template.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// lastIssuer returns the common name of the issuer of a chain's last certificate.
func lastIssuer(t *testing.T, chain []byte) string {
	t.Helper()
	name := ""
	for block, rest := pem.Decode(chain); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		name = cert.Issuer.CommonName
	}
	return name
}
