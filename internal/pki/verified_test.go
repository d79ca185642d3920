package pki

import (
	"crypto/sha256"
	"encoding/binary"
	"testing"
)

// The last requests that were verified are known, and no others.
func TestVerifiedRequests(t *testing.T) {
	v := verifiedRequests{known: map[[sha256.Size]byte]bool{}}
	digest := func(i int) (d [sha256.Size]byte) {
		binary.BigEndian.PutUint32(d[:], uint32(i)+1)
		return d
	}
	const all = 3 * keptVerified
	for i := range all {
		v.add(digest(i))
		v.add(digest(i)) // takes no second place
	}
	for i := range all {
		if got, want := v.has(digest(i)), i >= all-keptVerified; got != want {
			t.Fatalf("digest %d of %d is known: %v, want %v", i, all, got, want)
		}
	}
	if len(v.known) != keptVerified {
		t.Errorf("%d are kept, want %d", len(v.known), keptVerified)
	}
}

// A request with a signature that is not valid stays refused, also beside the valid
// one from which it was made.
func TestVerifyRequestAgain(t *testing.T) {
	key, err := GenerateKey(ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := NewRequest(Subject{CommonName: "a"}, key)
	if err != nil {
		t.Fatal(err)
	}
	parse := func() *Request {
		parsed, err := ParseRequest(pem)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	for range 2 {
		if err := VerifyRequest(parse().CertificateRequest); err != nil {
			t.Fatal(err)
		}
		forged := *parse().CertificateRequest // parsed requests are shared
		forged.Signature = append([]byte(nil), forged.Signature...)
		forged.Signature[len(forged.Signature)-1] ^= 1
		if VerifyRequest(&forged) == nil {
			t.Fatal("a signature that is not valid was accepted")
		}
	}
}
