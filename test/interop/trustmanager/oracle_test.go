package main

import (
	"bytes"
	crand "crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	trustapi "github.com/cert-manager/trust-manager/pkg/apis/trust/v1alpha1"
	oracle "github.com/cert-manager/trust-manager/pkg/bundle/certplaneoracle"
	"github.com/cert-manager/trust-manager/pkg/bundle/controller"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/api/trustmanager"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/truststore"
)

var (
	seed  = flag.Uint64("seed", 0, "the seed of random Bundles; 0 is a new one each time")
	cases = flag.Int("cases", 10_000, "how many random Bundles are compared")
)

// blocks returns blocks of PEM: certificates of CAs and of others, some of them expired, and
// blocks that a Bundle must not have.
func blocks(t *testing.T) (certificates, others []string) {
	t.Helper()
	encode := func(kind string, headers map[string]string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Headers: headers, Bytes: der}))
	}
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	var der []byte
	for i := range 40 {
		template := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: fmt.Sprint("root ", i), Organization: []string{"Größe & Söhne"}},
			NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(time.Duration(i%3*2-1) * time.Hour), IsCA: i%5 != 4, BasicConstraintsValid: i%7 != 6,
		}
		if der, err = x509.CreateCertificate(crand.Reader, template, template, key.Public(), key); err != nil {
			t.Fatal(err)
		}
		certificates = append(certificates, encode("CERTIFICATE", nil, der))
	}
	private, err := pki.EncodePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return certificates, []string{
		string(private), encode("CERTIFICATE", map[string]string{"a": "b"}, der), encode("CERTIFICATE", nil, der[:len(der)-1]),
		encode("CERTIFICATE", nil, append(bytes.Clone(der), 0)), encode("X509 CRL", nil, der), encode("CERTIFICATE", nil, nil), encode("TRUSTED CERTIFICATE", nil, der),
	}
}

// random makes Bundles.
type random struct {
	*rand.Rand
	certificates, others []string
}

// source returns the text of a source: 0 to 6 certificates with text around them, in one of 10 with
// a block that is not allowed.
func (r random) source() string {
	var text strings.Builder
	for range r.IntN(7) {
		text.WriteString([]string{"", "# comment\n", "\r\n\n", "text without a line break", "-----BEGIN CERTIFICATE-----\n", "\x00\xff\n"}[r.IntN(6)])
		block := r.certificates[r.IntN(len(r.certificates))]
		switch r.IntN(60) {
		case 0:
			block = r.others[r.IntN(len(r.others))]
		case 1:
			block = strings.ReplaceAll(block, "\n", "\r\n")
		case 2:
			block = block[:r.IntN(len(block))]
		case 3:
			block = strings.TrimSpace(block)
		}
		text.WriteString(block)
	}
	return text.String()
}

func (r random) pairs() map[string]string {
	pairs := map[string]string{}
	for range r.IntN(4) {
		pairs[[]string{"a", "b", "ab", "example.com/team", "zone"}[r.IntN(5)]] = []string{"", "b", "bc", "näh"}[r.IntN(4)]
	}
	return pairs
}

// Random Bundles have the same PEM, the same hash, also in the form of releases up to v0.24, and
// the same errors as with trust-manager.
func TestOracle(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("go test -run TestOracle -seed %d -cases %d", *seed, *cases)
	r := random{Rand: rand.New(rand.NewPCG(*seed, 0))}
	r.certificates, r.others = blocks(t)
	failed, empty := 0, 0
	for i := range *cases {
		filter := truststore.Filter{Expired: r.IntN(3) == 0, NonCA: r.IntN(3) == 0}
		set := truststore.Set{Keep: filter.At(time.Now())}
		var sources []trustapi.BundleSource
		var failure error
		for range 1 + r.IntN(4) {
			if text := r.source(); text != "" { // else the source is not there
				sources = append(sources, trustapi.BundleSource{InLine: text})
				if failure == nil {
					failure = set.AddPEM([]byte(text))
				}
			}
		}
		theirs, err := oracle.PEM(t.Context(), nil, controller.Options{FilterExpiredCerts: filter.Expired, FilterNonCACerts: filter.NonCA}, sources)
		switch {
		case failure != nil:
			failed++
			if err == nil || !strings.HasSuffix(err.Error(), failure.Error()) {
				t.Fatalf("%d: the error is %v, of trust-manager %v", i, failure, err)
			}
			continue
		case set.Len() == 0:
			empty++
			if err == nil || theirs != "" {
				t.Fatalf("%d: there is no certificate, and trust-manager has %q", i, theirs)
			}
			continue
		case err != nil || theirs != string(set.PEM()):
			t.Fatalf("%d: %v: trust-manager has\n%s\ncertplane\n%s", i, err, theirs, set.PEM())
		}
		r.compareHashes(t, i, theirs)
	}
	t.Logf("%d Bundles failed, %d were empty", failed, empty)
	if *cases >= 1000 && (failed < *cases/50 || empty < *cases/1000 || failed+empty > *cases/2) {
		t.Error("that are too few or too many")
	}
}

func (r random) compareHashes(t *testing.T, i int, text string) {
	t.Helper()
	ours, theirs := trustmanager.AdditionalFormats{}, &trustapi.AdditionalFormats{}
	if r.IntN(2) == 0 {
		password := []string{"changeit", "secret word", "é"}[r.IntN(3)]
		ours.JKS, theirs.JKS = &trustmanager.JKS{Password: password}, &trustapi.JKS{Password: password}
	}
	if r.IntN(2) == 0 {
		password, profile := ptr.To([]string{"", "changeit", "é"}[r.IntN(3)]), []string{"LegacyRC2", "LegacyDES", "Modern2023", ""}[r.IntN(4)]
		if r.IntN(5) == 0 {
			password = nil
		}
		ours.PKCS12 = &trustmanager.PKCS12{Password: password, Profile: trustmanager.PKCS12Profile(profile)}
		theirs.PKCS12 = &trustapi.PKCS12{Password: password, Profile: trustapi.PKCS12Profile(profile)}
	}
	if ours == (trustmanager.AdditionalFormats{}) && r.IntN(2) == 0 {
		theirs = nil
	}
	metadata := trustmanager.TargetMetadata{Labels: r.pairs(), Annotations: r.pairs()}
	template := &trustapi.TargetTemplate{Metadata: trustapi.TargetMetadata{Labels: metadata.Labels, Annotations: metadata.Annotations}}
	hash, former := trustmanager.TargetHash(text, ours, metadata)
	if want := oracle.Hash(text, theirs, template); hash != want {
		t.Fatalf("%d: the hash is %s, of trust-manager %s", i, hash, want)
	}
	if theirs != nil && theirs.PKCS12 != nil {
		theirs.PKCS12.Profile = "" // which it did not hash
	}
	if want := oracle.Hash(text, theirs, template); former != want {
		t.Fatalf("%d: the former hash is %s, of trust-manager %s", i, former, want)
	}
}
