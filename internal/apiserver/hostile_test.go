package apiserver_test

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

func requestBlock(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: pki.RequestBlockType, Bytes: der}))
}

// rsaRequest returns a request with an RSA key of so many bits to which no
// private key exists. The signature is random too: this shows only when it is
// verified.
func rsaRequest(t *testing.T, bits int) string {
	t.Helper()
	modulus := new(big.Int).SetBit(new(big.Int), bits-1, 1)
	modulus.SetBit(modulus, 0, 1)
	signature := make([]byte, bits/8)
	rand.Read(signature)
	signature[0] = 0 // less than the modulus
	return requestBlock(requestOf(t, rsaKey(t, modulus), signature))
}

func rsaKey(t *testing.T, modulus *big.Int) publicKeyInfo {
	t.Helper()
	key, err := asn1.Marshal(struct {
		N *big.Int
		E int
	}{modulus, 65537})
	if err != nil {
		t.Fatal(err)
	}
	rsaEncryption := asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}
	return publicKeyInfo{
		pkix.AlgorithmIdentifier{Algorithm: rsaEncryption, Parameters: asn1.NullRawValue},
		asn1.BitString{Bytes: key, BitLength: 8 * len(key)},
	}
}

type publicKeyInfo struct {
	Algorithm pkix.AlgorithmIdentifier
	PublicKey asn1.BitString
}

// requestInfo is the part of a request that is signed (RFC 2986 section 4.1).
type requestInfo struct {
	Version    int
	Subject    pkix.RDNSequence
	PublicKey  publicKeyInfo
	Attributes []asn1.RawValue `asn1:"tag:0,set"`
}

// requestOf builds a request by hand, with an invalid signature.
func requestOf(t *testing.T, key publicKeyInfo, signature []byte) []byte {
	t.Helper()
	sha256WithRSA := asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 11}
	der, err := asn1.Marshal(struct {
		Info      requestInfo
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}{
		requestInfo{Subject: pkix.Name{CommonName: "mallory"}.ToRDNSequence(), PublicKey: key},
		pkix.AlgorithmIdentifier{Algorithm: sha256WithRSA, Parameters: asn1.NullRawValue},
		asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x509.ParseCertificateRequest(der); err != nil {
		t.Fatalf("the request cannot be read, so nothing is tested: %v", err)
	}
	return der
}

// submit creates an object in which only spec.request is invalid.
func submit(t *testing.T, request string) call {
	t.Helper()
	obj := newCSR(t, "")
	obj.GenerateName = "hostile-"
	obj.Spec.Request = []byte(request)
	obj.APIVersion, obj.Kind = "certificates.k8s.io/v1", "CertificateSigningRequest"
	body, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return post(jsonType, string(body))
}

func (w world) testHostileRequests(t *testing.T) {
	const invalid, size = http.StatusUnprocessableEntity, 36_000 // the limit is 36,500
	const tooLong = "spec.request: Too long: may not be more than 36500 bytes"
	good := string(newCSR(t, "").Spec.Request)
	w.testAll(t, []fault{
		{"megabyte of text", submit(t, strings.Repeat("x", 1<<20)), invalid, tooLong},
		{"megabyte in a block", submit(t, requestBlock(bytes.Repeat([]byte("x"), 3<<18))), invalid, tooLong},
		{"a megabyte behind the block", submit(t, good+strings.Repeat("x", 1<<20)), invalid, tooLong},
		{"RSA, 4,000,000 bits", submit(t, rsaRequest(t, 4_000_000)), invalid, tooLong},
		{"text", submit(t, strings.Repeat("x", size)), invalid, "PEM block type must be CERTIFICATE REQUEST"},
		{"text in a block", submit(t, requestBlock(bytes.Repeat([]byte("x"), size/2))), invalid, "spec.request: Invalid value"},
		{"blocks that do not end", submit(t, strings.Repeat("-----BEGIN CERTIFICATE REQUEST-----\n", size/36)), invalid, "PEM block type"},
		{"blocks that do not begin", submit(t, strings.Repeat("-----END CERTIFICATE REQUEST-----\n", size/34)), invalid, "PEM block type"},
		{"blocks of other types", submit(t, strings.Repeat("-----BEGIN A-----\n-----END B-----\n", size/34)), invalid, "PEM block type"},
		{"dashes", submit(t, strings.Repeat("-", size)), invalid, "PEM block type"},
		{"PEM headers", submit(t, "-----BEGIN CERTIFICATE REQUEST-----\n"+strings.Repeat("a: b\n", (size-36)/5)), invalid, "PEM block type"},

		{"RSA, 16,385 bits", submit(t, rsaRequest(t, 16385)), invalid, "RSA key of 16385 bits is larger than the supported 16384 bits"},
		{"RSA, 100,000 bits", submit(t, rsaRequest(t, 100_000)), invalid, "RSA key of 100000 bits is larger than the supported 16384 bits"},
		{"RSA, 16,384 bits, wrong signature", submit(t, rsaRequest(t, 16384)), invalid, "crypto/rsa: verification error"},
		{"RSA, 16,384 bits", submit(t, string(largeRequest(t))), http.StatusCreated, ""},

		{"wrong signature", submit(t, spoilSignature(t, good)), invalid, "verification failure"},
		{"text around the block", submit(t, "Hello\n"+good+"\n-----BEGIN"), http.StatusCreated, ""},
	})
}

// largeRequest returns a valid request with an RSA key of 16,384 bits (of 16
// primes; two would take minutes to find).
func largeRequest(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/rsa16384.csr")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decode(t *testing.T, request string) []byte {
	t.Helper()
	block, _ := pem.Decode([]byte(request))
	if block == nil {
		t.Fatal("no PEM block")
	}
	return block.Bytes
}

// spoilSignature changes the last byte, which is part of the signature.
func spoilSignature(t *testing.T, request string) string {
	t.Helper()
	der := bytes.Clone(decode(t, request))
	der[len(der)-1] ^= 1
	return requestBlock(der)
}

// testTruncatedRequests truncates and changes a request at every position: the
// result is refused, or the position does not matter.
func (w world) testTruncatedRequests(t *testing.T) {
	der := decode(t, string(newCSR(t, "").Spec.Request))
	for i := range der {
		spoiled := bytes.Clone(der)
		spoiled[i] ^= 0x80
		for what, data := range map[string][]byte{"cut off at": der[:i], "spoiled at": spoiled} {
			if got := w.send(t, w.Admin(t), submit(t, requestBlock(data))); got.code != http.StatusUnprocessableEntity {
				t.Errorf("%s byte %d: %d %.200s", what, i, got.code, got.body)
			}
		}
	}
	w.wantHealthy(t)
}

// testLargeRequests: a request that the front end accepts does not always fit
// into the store, whose limits are lower.
func (w world) testLargeRequests(t *testing.T) {
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprintf("n%d.example.com", i)
	}
	many := apitest.NewCSR(t, "", signerName, pki.Subject{DNSNames: names}, apitest.NewKey(t))
	lease := func(size int) call {
		return call{
			path: "/apis/coordination.k8s.io/v1/namespaces/default/leases", header: map[string]string{"Content-Type": jsonType},
			body: fmt.Appendf(nil, `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"large"},"spec":{"holderIdentity":%q}}`, strings.Repeat("x", size)),
		}
	}
	w.testAll(t, []fault{
		{"a thousand names", submit(t, string(many.Spec.Request)), http.StatusCreated, ""},
		{"more than etcd takes", lease(3 << 19), http.StatusRequestEntityTooLarge, "it must fit into 1.5 MiB"},
		{"more than etcd's client sends", lease(5 << 19), http.StatusRequestEntityTooLarge, "it must fit into 1.5 MiB"},
	})
}
