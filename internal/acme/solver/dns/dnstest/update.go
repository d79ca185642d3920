package dnstest

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// Key is a TSIG key.
type Key struct {
	Algorithm string // as on the wire, such as dns.HmacSHA256
	Secret    string // base64
}

// keys is a dns.TsigProvider that also supports HMAC-MD5.
type keys map[string]Key

var hashes = map[string]func() hash.Hash{
	dns.HmacMD5: md5.New, dns.HmacSHA1: sha1.New, dns.HmacSHA256: sha256.New, dns.HmacSHA512: sha512.New,
}

// Generate implements dns.TsigProvider.
func (k keys) Generate(message []byte, t *dns.TSIG) ([]byte, error) {
	key, ok := k[strings.ToLower(t.Hdr.Name)]
	if !ok {
		return nil, dns.ErrSecret
	}
	if !strings.EqualFold(key.Algorithm, t.Algorithm) {
		return nil, dns.ErrKeyAlg
	}
	secret, err := base64.StdEncoding.DecodeString(key.Secret)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(hashes[key.Algorithm], secret)
	mac.Write(message)
	return mac.Sum(nil), nil
}

// Verify implements dns.TsigProvider.
func (k keys) Verify(message []byte, t *dns.TSIG) error {
	want, err := k.Generate(message, t)
	if err != nil {
		return err
	}
	if got, err := hex.DecodeString(t.MAC); err != nil || !hmac.Equal(got, want) {
		return dns.ErrSig
	}
	return nil
}

// IsDeletion reports whether an update only removes records.
func IsDeletion(update *dns.Msg) bool {
	return !slices.ContainsFunc(update.Ns, func(rr dns.RR) bool { return rr.Header().Class == dns.ClassINET })
}

// update answers a dynamic update (RFC 2136): records are added, or removed one
// by one.
func (s *Server) update(w dns.ResponseWriter, update *dns.Msg) {
	s.mu.Lock()
	s.updates = append(s.updates, update.Copy())
	fault := s.faults[faultKey("update", dns.TypeNone)]
	s.mu.Unlock()
	if fault != nil && fault(w, update) {
		return
	}
	reply := new(dns.Msg).SetReply(update)
	signature := update.IsTsig()
	if len(s.options.Keys) > 0 && (signature == nil || w.TsigStatus() != nil) {
		reply.Rcode = dns.RcodeNotAuth
		if signature != nil {
			refuseSignature(reply, signature, w.TsigStatus())
		}
		_ = w.WriteMsg(reply)
		return
	}
	reply.Rcode = s.apply(update)
	if s.options.Updated != nil {
		s.options.Updated(update)
	}
	if signature != nil {
		reply.SetTsig(signature.Hdr.Name, signature.Algorithm, 300, time.Now().Unix())
	}
	_ = w.WriteMsg(reply)
}

// refuseSignature adds a TSIG record with the error of the request's TSIG record. It has
// no signature (RFC 8945 section 5.3.2).
func refuseSignature(reply *dns.Msg, signature *dns.TSIG, why error) {
	reply.SetTsig(signature.Hdr.Name, signature.Algorithm, 300, time.Now().Unix())
	tsig := reply.IsTsig()
	tsig.Error = dns.RcodeBadSig
	if why == dns.ErrSecret || why == dns.ErrKeyAlg {
		tsig.Error = dns.RcodeBadKey
	}
}

// apply changes the records and returns the code of the reply.
func (s *Server) apply(update *dns.Msg) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	zone := update.Question[0].Name
	if !slices.ContainsFunc(s.records, func(rr dns.RR) bool {
		return rr.Header().Rrtype == dns.TypeSOA && strings.EqualFold(rr.Header().Name, zone)
	}) {
		return dns.RcodeNotAuth
	}
	for _, rr := range update.Ns {
		if !dns.IsSubDomain(zone, rr.Header().Name) {
			return dns.RcodeNotZone
		}
	}
	for _, rr := range update.Ns {
		adding := rr.Header().Class == dns.ClassINET
		rr = dns.Copy(rr)
		rr.Header().Class = dns.ClassINET
		s.records = slices.DeleteFunc(s.records, func(has dns.RR) bool { return dns.IsDuplicate(has, rr) })
		if adding {
			s.records = append(s.records, rr)
		}
	}
	return dns.RcodeSuccess
}
