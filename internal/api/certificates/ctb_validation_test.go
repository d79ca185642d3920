package certificates

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type bundle = certificatesv1.ClusterTrustBundle

// bundleTime is a time at which the anchors of the tests are valid.
var bundleTime = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// newAnchor returns the certificate of a root in DER, after an edit.
func newAnchor(t testing.TB, edits ...func(*x509.Certificate)) []byte {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "root"},
		NotBefore:             bundleTime.Add(-time.Hour),
		NotAfter:              bundleTime.Add(time.Hour),
		KeyUsage:              x509.KeyUsageCertSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	for _, edit := range edits {
		edit(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// anchors returns a trust bundle of blocks.
func anchors(blocks ...[]byte) string { return string(bytes.Join(blocks, nil)) }

func newBundle(name, signerName, trustBundle string) *bundle {
	return &bundle{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"},
		Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: signerName, TrustBundle: trustBundle},
	}
}

// summary returns the fields and types of errors.
func summary(errs field.ErrorList) []string {
	var lines []string
	for _, err := range errs {
		lines = append(lines, fmt.Sprintf("%s %s", err.Field, strings.TrimPrefix(string(err.Type), "FieldValue")))
	}
	return lines
}

func TestTrustBundleNames(t *testing.T) {
	good := anchors(block("CERTIFICATE", newAnchor(t)))
	badName, badSigner := []string{"metadata.name Invalid"}, []string{"spec.signerName Invalid"}
	for _, tc := range []struct {
		reason, name, signer string
		want                 []string
	}{
		{"no signer", "my-roots", "", nil},
		{"no signer, a name with dots", "my.roots", "", nil},
		{"no signer, yet a name as of one", "example.com:signer:roots", "", badName},
		{"no signer, any colon", "my:roots", "", badName},
		{"no signer, upper case", "Roots", "", badName},
		{"a signer", "example.com:signer:roots", "example.com/signer", nil},
		{"a signer, a name with dots", "example.com:signer:my.roots", "example.com/signer", nil},
		{"a signer with dots in its path", "example.com:a.b:roots", "example.com/a.b", nil},
		{"a signer, a name without one", "roots", "example.com/signer", badName},
		{"the prefix of another signer", "example.com:other:roots", "example.com/signer", badName},
		{"nothing after the prefix", "example.com:signer:", "example.com/signer", badName},
		{"upper case after the prefix", "example.com:signer:Roots", "example.com/signer", badName},
		{"a colon after the prefix", "example.com:signer:a:b", "example.com/signer", badName},
		{"no colon at the end of the prefix", "example.com:signer.roots", "example.com/signer", badName},
		{"a malformed signer, with its prefix", "invalid:roots", "invalid", badSigner},
		{"a malformed signer, without", "roots", "invalid", append(badName, badSigner...)},
		{"no name", "", "", []string{"metadata.name Required"}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, summary(ValidateTrustBundle(newBundle(tc.name, tc.signer, good)))); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

// A server adds five characters to a generated name.
func TestTrustBundleGenerateNames(t *testing.T) {
	good := anchors(block("CERTIFICATE", newAnchor(t)))
	for generate, want := range map[string][]string{
		"example.com:signer:x-": nil,
		"example.com:signer:":   {"metadata.generateName Invalid"},
		"x-":                    {"metadata.generateName Invalid"},
	} {
		obj := newBundle("example.com:signer:x-12345", "example.com/signer", good)
		obj.GenerateName = generate
		if diff := cmp.Diff(want, summary(ValidateTrustBundle(obj))); diff != "" {
			t.Errorf("%s: errors (-want +got):\n%s", generate, diff)
		}
	}
}

func TestTrustAnchors(t *testing.T) {
	a, b := newAnchor(t), newAnchor(t)
	blockA, blockB := block("CERTIFICATE", a), block("CERTIFICATE", b)
	// The same certificate, with other line breaks.
	wrapped := []byte("-----BEGIN CERTIFICATE-----\n" + base64.StdEncoding.EncodeToString(a) + "\n-----END CERTIFICATE-----\n")
	headers := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: map[string]string{"a": "b"}, Bytes: b})
	leaf := block("CERTIFICATE", newAnchor(t, func(c *x509.Certificate) { c.IsCA = false }))
	bare := block("CERTIFICATE", newAnchor(t, func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = false, false }))
	old := block("CERTIFICATE", newAnchor(t, func(c *x509.Certificate) { c.NotAfter = bundleTime.Add(-time.Minute) }))
	young := block("CERTIFICATE", newAnchor(t, func(c *x509.Certificate) { c.NotBefore = bundleTime.Add(time.Minute) }))
	useless := block("CERTIFICATE", newAnchor(t, func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageDigitalSignature }))

	entry := func(i int, detail string) string {
		return fmt.Sprintf("spec.trustBundle: Invalid value: \"<value omitted>\": entry %d %s", i, detail)
	}
	whole := func(detail string) []string {
		return []string{`spec.trustBundle: Invalid value: "<value omitted>": ` + detail}
	}
	for _, tc := range []struct {
		reason string
		text   string
		want   []string
	}{
		{"one", anchors(blockA), nil},
		{"several", anchors(blockA, blockB), nil},
		{"text around", anchors([]byte("# one\n"), blockA, []byte("\n# two\n"), blockB, []byte("the end")), nil},
		{"one that has expired, one that is not valid yet", anchors(old, young), nil},
		{"a CA that may not sign", anchors(useless), nil},
		{"nothing", "", whole("at least one trust anchor must be provided")},
		{"text alone", "no anchors here", whole("at least one trust anchor must be provided")},
		{"a broken block is text", anchors(blockA[:len(blockA)-10]), whole("at least one trust anchor must be provided")},
		{"another label", anchors(blockA, block("CERTIFICATE REQUEST", b)), []string{entry(1, "has bad block type: CERTIFICATE REQUEST")}},
		{"headers", anchors(blockA, headers), []string{entry(1, "has PEM block headers")}},
		{"no certificate", anchors(blockA, block("CERTIFICATE", []byte("x"))), []string{entry(1, "does not parse as X.509")}},
		{"two in a block", anchors(blockA, block("CERTIFICATE", append(b[:len(b):len(b)], b...))), []string{entry(1, "does not parse as X.509")}},
		{"no CA", anchors(leaf, blockA), []string{entry(0, "does not have the CA bit set")}},
		{"no basic constraints", anchors(bare, blockA), []string{entry(0, "does not have the CA bit set")}},
		{"each entry has its error", anchors(leaf, block("X", nil), blockA), []string{
			entry(0, "does not have the CA bit set"), entry(1, "has bad block type: X")}},
		{"twice the same", anchors(blockA, blockB, wrapped), whole("duplicate trust anchor (indices [0 2])")},
		{"two twice, in their order", anchors(blockA, blockB, wrapped, blockB, blockB), append(
			whole("duplicate trust anchor (indices [0 2])"), whole("duplicate trust anchor (indices [1 3 4])")...)},
		{"nobody looks for duplicates among errors", anchors(blockA, wrapped, leaf), []string{entry(2, "does not have the CA bit set")}},
		{"as large as it may be", anchors(blockA) + strings.Repeat("#", maxTrustBundleSize-len(blockA)), nil},
		{"too large, which is all that is said", strings.Repeat("#", maxTrustBundleSize+1), []string{
			"spec.trustBundle: Too long: may not be more than 1048576 bytes"}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, texts(ValidateTrustBundle(newBundle("roots", "", tc.text)))); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

// An invalid megabyte is refused with a short error.
func TestTrustBundleErrorsAreBounded(t *testing.T) {
	nonsense := strings.Repeat("-----BEGIN X-----\n-----END X-----\n", 20_000)
	if errs := ValidateTrustBundle(newBundle("roots", "", nonsense)); len(errs) != maxTrustBundleErrors {
		t.Errorf("%d errors", len(errs))
	}
}

func TestTrustBundleUpdate(t *testing.T) {
	blockA, blockB := block("CERTIFICATE", newAnchor(t)), block("CERTIFICATE", newAnchor(t))
	linked := func(trustBundle string) *bundle {
		return newBundle("example.com:signer:x", "example.com/signer", trustBundle)
	}
	badBundle := []string{"spec.trustBundle Invalid"}
	for _, tc := range []struct {
		reason   string
		old, new *bundle
		want     []string
	}{
		{"nothing", linked(anchors(blockA)), linked(anchors(blockA)), nil},
		{"nothing, of one that is not valid any more", linked("junk"), linked("junk"), nil},
		{"nothing, of one that is too large", linked(strings.Repeat("x", maxTrustBundleSize+1)), linked(strings.Repeat("x", maxTrustBundleSize+1)), nil},
		{"another anchor", linked(anchors(blockA)), linked(anchors(blockA, blockB)), nil},
		{"no anchors any more", linked(anchors(blockA)), linked(""), badBundle},
		{"junk instead", linked(anchors(blockA)), linked("junk"), badBundle},
		{"a signer comes", newBundle("x", "", anchors(blockA)), newBundle("x", "example.com/signer", anchors(blockA)),
			[]string{"metadata.name Invalid", "spec.signerName Invalid"}},
		{"the signer goes", linked(anchors(blockA)), newBundle("example.com:signer:x", "", anchors(blockA)),
			[]string{"metadata.name Invalid", "spec.signerName Invalid"}},
		{"another signer", linked(anchors(blockA)), newBundle("example.com:signer:x", "example.com/other", anchors(blockA)),
			[]string{"metadata.name Invalid", "spec.signerName Invalid"}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, summary(ValidateTrustBundleUpdate(tc.new, tc.old))); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTrustBundleWarnings(t *testing.T) {
	good := block("CERTIFICATE", newAnchor(t))
	expired := block("CERTIFICATE", newAnchor(t, func(c *x509.Certificate) { c.NotAfter = bundleTime.Add(-time.Minute) }))
	useless := block("CERTIFICATE", newAnchor(t, func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageDigitalSignature }))
	anything := block("CERTIFICATE", newAnchor(t, func(c *x509.Certificate) { c.KeyUsage = 0 }))
	const residue = "spec.trustBundle: some text looks like PEM blocks but cannot be read as such, and is ignored: only 1 of them can be read"
	for _, tc := range []struct {
		reason string
		text   string
		want   []string
	}{
		{"nothing to say", anchors([]byte("-- my roots --\n"), good), nil},
		{"expired", anchors(good, expired, expired), []string{"spec.trustBundle: the CAs of entries [1 2] have expired, so nothing can be verified with them"}},
		{"may not sign", anchors(useless, good), []string{"spec.trustBundle: the key usages of entries [0] lack keyCertSign, so most verifiers refuse what these CAs have signed"}},
		{"may do everything", anchors(anything), nil},
		{"half a block", anchors(good, good[:len(good)/2]), []string{residue}},
		{"a missing dash", anchors(good, []byte("-----BEGIN CERTIFICATE----\nMA==\n-----END CERTIFICATE-----\n")), []string{residue}},
		{"bad base64", anchors([]byte("-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----\n"), good), []string{residue}},
		{"indented", anchors(good, bytes.ReplaceAll(append([]byte("\n"), good...), []byte("\n"), []byte("\n  "))), []string{residue}},
		{"an end without a beginning", anchors([]byte("-----END CERTIFICATE-----\n"), good), []string{residue}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			obj := newBundle("roots", "", tc.text)
			if diff := cmp.Diff(tc.want, TrustBundleWarnings(obj, nil, bundleTime)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if got := TrustBundleWarnings(obj, obj, bundleTime); got != nil {
				t.Errorf("an update that changes nothing warns: %v", got)
			}
		})
	}
}

// Accepted text consists of different CAs, whatever is around them.
func FuzzValidateTrustAnchors(f *testing.F) {
	good := anchors(block("CERTIFICATE", newAnchor(f)))
	f.Add(good)
	f.Add(good + good)
	f.Add("text\n" + good + "text")
	f.Add(good[:len(good)/2])
	f.Add(strings.Repeat("-----BEGIN ", 1000))
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		errs := validateTrustAnchors(text)
		for _, err := range errs {
			if err.BadValue != trustBundleValue {
				t.Fatalf("the error repeats the data: %v", err)
			}
		}
		_ = TrustBundleWarnings(newBundle("roots", "", text), nil, bundleTime)
		if len(errs) > 0 {
			return
		}
		seen := map[string]bool{}
		for _, block := range pemBlocks(text) {
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil || !cert.IsCA || seen[string(block.Bytes)] {
				t.Fatalf("accepted %q", block.Bytes)
			}
			seen[string(block.Bytes)] = true
		}
		if len(seen) == 0 {
			t.Fatal("accepted nothing")
		}
	})
}
