package rfc2136

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"hash"
	"strings"

	"github.com/miekg/dns"
)

// hashes maps the algorithms to their hashes. The library lacks HMAC-MD5, which is the
// default of the API.
var hashes = map[string]func() hash.Hash{
	dns.HmacMD5:    md5.New,
	dns.HmacSHA1:   sha1.New,
	dns.HmacSHA256: sha256.New,
	dns.HmacSHA512: sha512.New,
}

// key is a dns.TsigProvider with one key.
type key struct {
	name      string // canonical
	algorithm string
	secret    []byte
}

// Generate implements dns.TsigProvider.
func (k *key) Generate(message []byte, signature *dns.TSIG) ([]byte, error) {
	switch {
	case dns.CanonicalName(signature.Hdr.Name) != k.name:
		return nil, dns.ErrSecret
	case !strings.EqualFold(signature.Algorithm, k.algorithm):
		return nil, dns.ErrKeyAlg
	}
	mac := hmac.New(hashes[k.algorithm], k.secret)
	mac.Write(message)
	return mac.Sum(nil), nil
}

// Verify implements dns.TsigProvider.
func (k *key) Verify(message []byte, signature *dns.TSIG) error {
	want, err := k.Generate(message, signature)
	if err != nil {
		return err
	}
	if got, err := hex.DecodeString(signature.MAC); err != nil || !hmac.Equal(got, want) {
		return dns.ErrSig
	}
	return nil
}
