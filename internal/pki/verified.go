package pki

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"sync"
)

// keptVerified is how many requests are remembered: about as many as are between
// creation and signature at a time.
const keptVerified = 1024

// verifiedRequests remembers the last requests whose signatures were found to be
// valid: the API server, approvers and signers verify the same one after the other. It
// is safe for concurrent use.
type verifiedRequests struct {
	mu    sync.Mutex // guards the fields below
	known map[[sha256.Size]byte]bool
	last  [keptVerified][sha256.Size]byte
	next  int
}

var verified = verifiedRequests{known: make(map[[sha256.Size]byte]bool, keptVerified)}

// digestOf returns the digest of all inputs to the verification of a signature. known is
// false for keys without an encoding.
func digestOf(req *x509.CertificateRequest) (digest [sha256.Size]byte, known bool) {
	key, err := x509.MarshalPKIXPublicKey(req.PublicKey)
	if err != nil {
		return digest, false
	}
	hash := sha256.New()
	for _, part := range [][]byte{{byte(req.SignatureAlgorithm)}, key, req.Signature, req.RawTBSCertificateRequest} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		hash.Write(length[:])
		hash.Write(part)
	}
	return [sha256.Size]byte(hash.Sum(nil)), true
}

func (v *verifiedRequests) has(digest [sha256.Size]byte) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.known[digest]
}

// add forgets the oldest one if there are too many.
func (v *verifiedRequests) add(digest [sha256.Size]byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known[digest] {
		return
	}
	delete(v.known, v.last[v.next])
	v.known[digest], v.last[v.next] = true, digest
	v.next = (v.next + 1) % keptVerified
}
