package acmetest

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

// The common names of the roots.
const (
	RootName          = "acmetest root"
	AlternateRootName = "acmetest alternate root"
)

type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func (a authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// authorities are two roots, each with a certificate for the same intermediate.
type authorities struct {
	root, alternate                 authority
	intermediate, otherIntermediate authority
}

func newAuthorities(t testing.TB) authorities {
	t.Helper()
	var all authorities
	all.root = newAuthority(t, RootName, newKey(t), authority{})
	all.alternate = newAuthority(t, AlternateRootName, newKey(t), authority{})
	key := newKey(t)
	all.intermediate = newAuthority(t, "acmetest intermediate", key, all.root)
	all.otherIntermediate = newAuthority(t, "acmetest intermediate", key, all.alternate)
	return all
}

func newKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// newAuthority makes a CA; below the zero value, a root.
func newAuthority(t testing.TB, name string, key crypto.Signer, by authority) authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(20 * 365 * 24 * time.Hour),
		BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageCertSign,
	}
	if by.cert == nil {
		by = authority{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key}
}

// sign makes the certificate of an order.
func (s *Server) sign(o *order, csr *x509.CertificateRequest) *failure {
	now := s.options.Now().Truncate(time.Second)
	n := s.number()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(int64(n) + 1<<40), Subject: pkix.Name{CommonName: csr.Subject.CommonName},
		DNSNames: csr.DNSNames, IPAddresses: csr.IPAddresses, NotBefore: now, NotAfter: now.Add(s.options.Lifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	if end, err := time.Parse(time.RFC3339, o.NotAfter); err == nil {
		template.NotAfter = end
	}
	der, err := x509.CreateCertificate(rand.Reader, template, s.cas.intermediate.cert, csr.PublicKey, s.cas.intermediate.key)
	if err != nil {
		return refuse(http.StatusBadRequest, rfc8555.ProblemBadCSR, "%v", err)
	}
	path := fmt.Sprintf("%s%d", pathCertificate, n)
	leaf := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	s.certificates[path] = bytes.Join([][]byte{leaf, s.cas.intermediate.pem()}, nil)
	s.certificates[path+alternateSuffix] = bytes.Join([][]byte{leaf, s.cas.otherIntermediate.pem()}, nil)
	o.made = s.http.URL + path
	return nil
}

const alternateSuffix = "/1"

func (s *Server) serveCertificate(w http.ResponseWriter, r *request) *failure {
	chain, ok := s.certificates[r.URL.Path]
	if !ok {
		return refuse(http.StatusNotFound, rfc8555.ProblemMalformed, "unknown certificate %s", r.URL.Path)
	}
	if !strings.HasSuffix(r.URL.Path, alternateSuffix) {
		w.Header().Set("Link", fmt.Sprintf(`<%s%s%s>;rel="alternate"`, s.http.URL, r.URL.Path, alternateSuffix))
	}
	w.Header().Set("Content-Type", "application/pem-certificate-chain")
	_, _ = w.Write(chain) // into memory
	return nil
}

// revokeCert revokes a certificate that the account has ordered. It refuses the reasons that
// Let's Encrypt refuses.
func (s *Server) revokeCert(w http.ResponseWriter, r *request) *failure {
	var asked struct {
		Certificate string `json:"certificate"`
		Reason      int    `json:"reason"`
	}
	if err := json.Unmarshal(r.payload, &asked); err != nil {
		return refuse(http.StatusBadRequest, rfc8555.ProblemMalformed, "%v", err)
	}
	der, err := base64.RawURLEncoding.DecodeString(asked.Certificate)
	if err != nil {
		return refuse(http.StatusBadRequest, rfc8555.ProblemMalformed, "%v", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return refuse(http.StatusBadRequest, rfc8555.ProblemMalformed, "%v", err)
	}
	serial := cert.SerialNumber.Text(16)
	_, known := s.revoked[serial]
	switch {
	case !s.ordered(r.account, der):
		return refuse(http.StatusForbidden, rfc8555.ProblemUnauthorized, "the account has not ordered the certificate %s", serial)
	case known:
		return refuse(http.StatusBadRequest, rfc8555.ProblemAlreadyRevoked, "the certificate %s is revoked", serial)
	case !slices.Contains([]int{0, 1, 4, 5}, asked.Reason):
		return refuse(http.StatusBadRequest, rfc8555.ProblemBadRevocationReason, "the reason %d is not allowed", asked.Reason)
	}
	s.revoked[serial] = asked.Reason
	w.WriteHeader(http.StatusOK)
	return nil
}

// ordered reports whether an account has ordered a certificate.
func (s *Server) ordered(by *account, der []byte) bool {
	for _, o := range s.orders {
		if block, _ := pem.Decode(s.certificates[s.path(o.made)]); o.account == by && block != nil && bytes.Equal(block.Bytes, der) {
			return true
		}
	}
	return false
}
