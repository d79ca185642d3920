package pki_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/pki"
)

func block(kind string, data []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}))
}

func TestParseCertificates(t *testing.T) {
	one, two := newRoot(t).Certificate(), newRoot(t).Certificate()
	onePEM, twoPEM := block("CERTIFICATE", one.Raw), block("CERTIFICATE", two.Raw)
	tests := []struct {
		reason string
		data   string
		want   []*x509.Certificate
		err    string // beginning of the error
	}{
		{reason: "one", data: onePEM, want: []*x509.Certificate{one}},
		{reason: "order is kept", data: twoPEM + onePEM, want: []*x509.Certificate{two, one}},
		{reason: "text around blocks", data: "before\n" + onePEM + "between\n" + twoPEM + "after", want: []*x509.Certificate{one, two}},
		{reason: "two in one block", data: block("CERTIFICATE", append(bytes.Clone(one.Raw), two.Raw...)), want: []*x509.Certificate{one, two}},
		{reason: "a broken block is not text", data: onePEM + "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", err: "line 11: the PEM block cannot be read: its content is not base64"},
		{reason: "nothing", err: "must contain at least one CERTIFICATE PEM block"},
		{reason: "no PEM", data: "hello", err: "must contain at least one CERTIFICATE PEM block"},
		{reason: "DER", data: string(one.Raw), err: "must contain at least one CERTIFICATE PEM block"},
		{reason: "other label", data: onePEM + block("PRIVATE KEY", nil), err: `only CERTIFICATE PEM blocks are allowed, found "PRIVATE KEY"`},
		{
			reason: "headers",
			data:   string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: one.Raw, Headers: map[string]string{"a": "b"}})),
			err:    "no PEM block headers are permitted",
		},
		{reason: "empty block", data: block("CERTIFICATE", nil), err: "found CERTIFICATE PEM block containing 0 certificates"},
		{reason: "junk in a block", data: block("CERTIFICATE", []byte("junk")), err: "x509: "},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			got, err := pki.ParseCertificates([]byte(tc.data))
			if (tc.err == "") != (err == nil) || !strings.HasPrefix(text(err), tc.err) {
				t.Fatalf("error %q, want %q", text(err), tc.err)
			}
			if diff := cmp.Diff(fingerprints(tc.want), fingerprints(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestParseBundleSkipsOtherBlocks(t *testing.T) {
	one, two := newRoot(t).Certificate(), newRoot(t).Certificate()
	data := block("PRIVATE KEY", []byte("secret")) + block("CERTIFICATE", one.Raw) + block("EC PARAMETERS", nil) + block("CERTIFICATE", two.Raw)
	got, err := pki.ParseBundle([]byte(data))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fingerprints([]*x509.Certificate{one, two}), fingerprints(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, err := pki.ParseBundle([]byte(block("PRIVATE KEY", nil))); text(err) != "must contain at least one CERTIFICATE PEM block" {
		t.Errorf("error %q for a bundle without certificates", text(err))
	}
}

// No block is dropped without a word, wherever certificates and keys are read.
func TestDamagedPEM(t *testing.T) {
	cert := newRoot(t).Certificate()
	one := block("CERTIFICATE", cert.Raw)
	keyPEM, err := pki.EncodePrivateKey(newKey(t, pki.ECDSAP256))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(one, "\n")
	for _, tc := range []struct{ reason, data, want string }{
		{"joined", strings.TrimSuffix(one, "\n") + one, "text follows on its last line"},
		{"joined with a key", string(keyPEM[:len(keyPEM)-1]) + one, "text follows on its last line"},
		{"cut", one + one[:len(one)/2], "line 11: the PEM block cannot be read: it has no separate last line"},
		{"cut within its last line", one + one[:len(one)-3], "it has no separate last line"},
		{"cut, and another one after it", one[:len(one)/2] + "\n" + one + one, "line 1: the PEM block cannot be read: it has no separate last line"},
		{"without its beginning", strings.Join(lines[2:], "") + one, "a PEM block ends here that does not begin"},
		{"a byte order mark", "\ufeff" + one + one, "a byte order mark is before it"},
		{"UTF-16", "\xff\xfe-\x00-\x00", "UTF-16"},
		{"indented", one + "  " + strings.Join(lines, "  "), "indented"},
		{"text before it", "cert: " + one + one, "other text is before it on the same line"},
		{"another label at its end", one + strings.Join(lines[:len(lines)-2], "") + "-----END X509 CRL-----\n" + one, "it has no separate last line"},
		{"lines ended by carriage returns only", one + strings.ReplaceAll(one, "\n", "\r"), "it has no separate last line"},
		{"too few dashes", one + "----BEGIN CERTIFICATE----\n" + strings.Join(lines[1:], ""), "a PEM block ends here"},
		{"too few dashes at both ends", one + "----BEGIN CERTIFICATE----\n" + strings.Join(lines[1:len(lines)-2], "") + "----END CERTIFICATE----\n", "this looks like the boundary"},
		{"other dashes", strings.NewReplacer("-----", "\u2013\u2013\u2013").Replace(one) + one, "this looks like the boundary"},
		{"small letters", strings.Replace(strings.Replace(one, "BEGIN CERTIFICATE", "begin certificate", 1), "END CERTIFICATE", "end certificate", 1) + one, "this looks like the boundary"},
		{"text after its first line", one + strings.Replace(one, "BEGIN CERTIFICATE-----", "BEGIN CERTIFICATE----- # root", 1), "five dashes"},
		{"other characters", one + strings.Replace(one, "MII", "M\u00a0I", 1), "not base64"},
		{"text after its last line", one + strings.TrimSuffix(one, "\n") + " # root\n", "text follows on its last line"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			for name, read := range map[string]func([]byte) error{
				"ParseCertificates": func(data []byte) error { _, err := pki.ParseCertificates(data); return err },
				"ParseBundle":       func(data []byte) error { _, err := pki.ParseBundle(data); return err },
				"ParseChain":        func(data []byte) error { _, err := pki.ParseChain(data); return err },
				"ParseFirst":        func(data []byte) error { _, err := pki.ParseFirst(data); return err },
				"ParsePrivateKey":   func(data []byte) error { _, err := pki.ParsePrivateKey(append(data, keyPEM...)); return err },
			} {
				if name == "ParsePrivateKey" && !strings.HasSuffix(tc.data, "\n") {
					continue
				}
				if err := read([]byte(tc.data)); !strings.Contains(text(err), tc.want) {
					t.Errorf("%s: error %q, want %q", name, text(err), tc.want)
				}
			}
		})
	}
	for _, tc := range []struct{ reason, data string }{
		{"lines of Windows", strings.ReplaceAll(one+one, "\n", "\r\n")},
		{"text around", "subject=CN = root\n" + one + "\n---\nServer --- BEGIN of chain ---\n" + one + "# end"},
		{"no last line break", one + strings.TrimSuffix(one, "\n")},
		{"a byte order mark before text", "\ufeffmy CAs\n" + one + one},
		{"keys and others", one + string(keyPEM) + block("EC PARAMETERS", nil) + block("X509 CRL", nil) + block("NEW CERTIFICATE REQUEST", nil) + one},
		{"white space after boundaries", strings.ReplaceAll(one+one, "-----\n", "----- \t\n")},
	} {
		if got, err := pki.ParseBundle([]byte(tc.data)); err != nil || len(got) != 2 || !got[1].Equal(cert) {
			t.Errorf("%s: %d certificates, %v", tc.reason, len(got), err)
		}
	}
	for _, label := range []string{"TRUSTED CERTIFICATE", "X509 CERTIFICATE", "PKCS7", "CMS", "certificate", "ATTRIBUTE CERTIFICATE"} {
		if _, err := pki.ParseBundle([]byte(one + block(label, cert.Raw))); !strings.Contains(text(err), "the PEM block \""+label+"\" is not supported") {
			t.Errorf("%s: error %q", label, text(err))
		}
	}
	if _, err := pki.ParseVisibleCertificates([]byte(one + one[:len(one)/2])); err != nil {
		t.Errorf("as Kubernetes reads: %v", err)
	}
}

// What is read is what package encoding/pem reads.
func FuzzBlocks(f *testing.F) {
	cert := newRoot(f).Certificate()
	one := block("CERTIFICATE", cert.Raw)
	for _, seed := range []string{one, one + one, strings.TrimSuffix(one, "\n") + one, "\ufeff" + one, one[:99], strings.ReplaceAll(one, "\n", "\r\n"), "-----BEGIN A-----\nb: c\n\n-----END A-----\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		blocks, err := pki.Blocks(data)
		if err != nil {
			if strings.Contains(err.Error(), "MII") {
				t.Errorf("the error shows content: %v", err)
			}
			return
		}
		rest := data
		for i := 0; ; i++ {
			var next *pem.Block
			if next, rest = pem.Decode(rest); next == nil {
				if i != len(blocks) {
					t.Fatalf("%d blocks instead of %d", len(blocks), i)
				}
				return
			}
			if i >= len(blocks) || blocks[i].Type != next.Type || !bytes.Equal(blocks[i].Bytes, next.Bytes) {
				t.Fatalf("block %d is another one", i+1)
			}
		}
	})
}

func TestEncodeCertificates(t *testing.T) {
	want := []*x509.Certificate{newRoot(t).Certificate(), newRoot(t).Certificate()}
	got, err := pki.ParseCertificates(pki.EncodeCertificates(want...))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fingerprints(want), fingerprints(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func fingerprints(certs []*x509.Certificate) []string {
	var sums []string
	for _, cert := range certs {
		sums = append(sums, pki.Fingerprint(cert))
	}
	return sums
}

func TestPrivateKeyRoundTrip(t *testing.T) {
	for _, kind := range []pki.KeyType{pki.ECDSAP256, pki.ECDSAP384, pki.Ed25519, pki.RSA2048} {
		want := newKey(t, kind)
		data, err := pki.EncodePrivateKey(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := pki.ParsePrivateKey(data)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		assertSameKey(t, want, got)
		if !strings.HasPrefix(string(data), "-----BEGIN PRIVATE KEY-----\n") {
			t.Errorf("%s: not PKCS#8", kind)
		}
	}
}

func TestParsePrivateKey(t *testing.T) {
	ec, r := newKey(t, pki.ECDSAP256), newKey(t, pki.RSA2048)
	sec1, err := x509.MarshalECPrivateKey(ec.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	pkcs1 := x509.MarshalPKCS1PrivateKey(r.(*rsa.PrivateKey))
	tests := []struct {
		reason string
		data   string
		want   crypto.Signer
		err    string // part of the error
	}{
		{reason: "SEC 1", data: block("EC PRIVATE KEY", sec1), want: ec},
		{reason: "openssl ecparam's preamble", data: block("EC PARAMETERS", []byte{6, 0}) + block("EC PRIVATE KEY", sec1), want: ec},
		{reason: "PKCS#1", data: block("RSA PRIVATE KEY", pkcs1), want: r},
		{reason: "behind its certificate", data: block("CERTIFICATE", []byte("x")) + block("RSA PRIVATE KEY", pkcs1), want: r},
		{reason: "nothing", err: "no private key found"},
		{reason: "a public key", data: block("PUBLIC KEY", nil), err: "no private key found"},
		{reason: "encrypted PKCS#8", data: block("ENCRYPTED PRIVATE KEY", nil), err: "private key is encrypted"},
		{
			reason: "encrypted in the old way",
			data:   string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Headers: map[string]string{"DEK-Info": "AES-256-CBC,00"}})),
			err:    "private key is encrypted",
		},
		{reason: "junk", data: block("PRIVATE KEY", []byte("secret-junk")), err: "parsing PRIVATE KEY: "},
		{reason: "cut off", data: block("EC PRIVATE KEY", sec1[:len(sec1)-9]), err: "parsing EC PRIVATE KEY: "},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			got, err := pki.ParsePrivateKey([]byte(tc.data))
			if (tc.err == "") != (err == nil) || !strings.Contains(text(err), tc.err) {
				t.Fatalf("error %q, want %q", text(err), tc.err)
			}
			if strings.Contains(text(err), "secret") {
				t.Errorf("error shows the key: %v", err)
			}
			if err == nil {
				assertSameKey(t, tc.want, got)
			}
		})
	}
}

func assertSameKey(t *testing.T, want, got crypto.Signer) {
	t.Helper()
	if !want.(interface{ Equal(crypto.PrivateKey) bool }).Equal(got) {
		t.Error("not the same key")
	}
}

func TestParsePrivateKeyBoundsWork(t *testing.T) {
	for _, kind := range []string{"PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"} {
		if _, err := pki.ParsePrivateKey([]byte(block(kind, make([]byte, 10_001)))); !strings.Contains(text(err), "larger than the supported") {
			t.Errorf("%s: error %q", kind, text(err))
		}
	}
}
