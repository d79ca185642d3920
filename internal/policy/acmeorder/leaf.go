package acmeorder

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/pki"
)

// What is permitted to the clock of a signer: how far in the future a certificate
// may begin, and how much later than asked for it may end.
const (
	earlyStart = 5 * time.Minute
	lateEnd    = time.Minute
)

// maxSerial is the longest serial number, in octets (RFC 5280 section 4.1.2.2).
const maxSerial = 20

// Leaf is a certificate that matches its order. Only CheckLeaf makes it.
type Leaf struct{ record v1alpha1.AcmeCertificate }

// Record returns what the order keeps of the certificate.
func (l *Leaf) Record() v1alpha1.AcmeCertificate { return *l.record.DeepCopy() }

// Issued is an answer of a signer.
type Issued struct {
	// PEM contains the certificate and its issuers, with or without the root.
	PEM []byte
	// Roots returns the known roots of the signer, and CAs that other CAs have
	// cross-signed. It can be nil.
	Roots func() []*x509.Certificate
	// Prefer selects the chains that clients are offered, and the default.
	Prefer Preference
	// Lifetime is the lifetime that was requested.
	Lifetime time.Duration
	// SerialTaken reports whether another certificate of the endpoint has this
	// serial number of the same issuer.
	SerialTaken func(authorityKeyID []byte, serial string) bool
}

// CheckLeaf checks an issued certificate before it is handed out: it must have the key of
// the request, exactly the ordered names and a validity as requested, and its chain must
// verify. Errors explain what is wrong with it.
func CheckLeaf(o *order, issued Issued, now time.Time) (*Leaf, error) {
	certs, err := pki.ParseCertificates(issued.PEM)
	if err != nil {
		return nil, fmt.Errorf("parsing the issued chain: %w", err)
	}
	csr, err := pki.ParseRequestDER(o.Status.CSR)
	if err != nil {
		return nil, fmt.Errorf("parsing the order's certificate request: %w", err)
	}
	wanted := pki.Wanted{Key: csr.PublicKey}
	path, err := pki.AcceptPath(certs, wanted, now)
	if err != nil {
		return nil, err
	}
	leaf := path[0]
	for _, check := range []func() error{
		func() error { return checkLeafNames(o, leaf) },
		func() error { return checkLeafTimes(o, leaf, issued.Lifetime, now) },
		func() error { return checkSerial(leaf, issued.SerialTaken) },
	} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	cas := certs[1:]
	if issued.Roots != nil {
		cas = append(slices.Clip(cas), issued.Roots()...)
	}
	record, first := recordOf(leaf), withIssuer(path, cas)
	chains := issued.Prefer.order(append([][]*x509.Certificate{first}, alternates(first, cas, wanted, now, issued.Prefer.most())...), cas, now)
	record.Chain = string(pki.EncodeCertificates(chains[0]...))
	size := len(record.Chain)
	if size > maxChain {
		return nil, fmt.Errorf("the chain has %d bytes, more than %d", size, maxChain)
	}
	for _, other := range chains[1:] {
		above := string(pki.EncodeCertificates(other[1:]...))
		if size += len(above); size > maxChain || len(record.Alternates) == maxAlternates {
			break
		}
		record.Alternates = append(record.Alternates, above)
	}
	return &Leaf{record}, nil
}

// withIssuer adds the root to a chain that consists of the certificate alone, as from a
// signer whose CA is a root: some clients, such as certbot, reject a chain of one
// certificate. Other chains have no root (RFC 8555 section 7.4.2).
func withIssuer(path, cas []*x509.Certificate) []*x509.Certificate {
	if len(path) > 1 {
		return path
	}
	for _, ca := range cas {
		if isSelfSigned(ca) && path[0].CheckSignatureFrom(ca) == nil {
			return append(path, ca)
		}
	}
	return path
}

func checkLeafNames(o *order, leaf *x509.Certificate) error {
	others, err := pki.OtherNames(leaf.Extensions)
	switch {
	case err != nil:
		return err
	case leaf.IsCA || leaf.KeyUsage&(x509.KeyUsageCertSign|x509.KeyUsageCRLSign) != 0:
		return errors.New("the certificate is a CA certificate")
	case len(leaf.EmailAddresses)+len(leaf.URIs)+len(others) > 0:
		return errors.New("the certificate has names other than DNS names and addresses")
	}
	return sameNames(o.Spec.Identifiers, leaf.DNSNames, addressesOf(leaf.IPAddresses), "the certificate")
}

func addressesOf[T ~[]byte](ips []T) []string {
	var texts []string
	for _, ip := range ips {
		address, _ := netip.AddrFromSlice(ip)
		texts = append(texts, address.Unmap().String())
	}
	return texts
}

// sameNames compares names, in any case, and addresses with the ordered ones.
func sameNames(ids []v1alpha1.AcmeIdentifier, dns, ips []string, what string) error {
	want := map[v1alpha1.AcmeIdentifier]bool{}
	for _, id := range ids {
		want[id] = true
	}
	found := map[v1alpha1.AcmeIdentifier]bool{}
	for i, name := range append(slices.Clone(dns), ips...) {
		id := v1alpha1.AcmeIdentifier{Type: rfc8555.IdentifierDNS, Value: strings.ToLower(name)}
		if i >= len(dns) {
			id.Type = rfc8555.IdentifierIP
		}
		switch {
		case !want[id]:
			return fmt.Errorf("%s has %s, which was not ordered", what, rfc8555.Quote(name))
		case found[id]:
			return fmt.Errorf("%s has %s twice", what, rfc8555.Quote(name))
		}
		found[id] = true
	}
	for _, id := range ids {
		if !found[id] {
			return fmt.Errorf("%s lacks %s, which was ordered", what, rfc8555.Quote(id.Value))
		}
	}
	return nil
}

func checkLeafTimes(o *order, leaf *x509.Certificate, lifetime time.Duration, now time.Time) error {
	latest := now.Add(lifetime)
	if o.Spec.NotAfter != nil {
		latest = pki.Earlier(latest, o.Spec.NotAfter.Time)
	}
	switch {
	case leaf.NotBefore.After(now.Add(earlyStart)):
		return fmt.Errorf("the certificate begins at %s, in the future", leaf.NotBefore.UTC().Format(time.RFC3339))
	case !leaf.NotAfter.After(now):
		return errors.New("the certificate has expired")
	case leaf.NotAfter.After(latest.Add(lateEnd)):
		return fmt.Errorf("the certificate ends at %s, later than asked for", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

func checkSerial(leaf *x509.Certificate, taken func([]byte, string) bool) error {
	switch serial := leaf.SerialNumber; {
	case serial.Sign() <= 0 || len(serial.Bytes()) > maxSerial:
		return errors.New("the certificate's serial number is not positive, or longer than 20 octets")
	case taken != nil && taken(leaf.AuthorityKeyId, SerialText(leaf)):
		return errors.New("another certificate has the same serial number")
	}
	return nil
}

// SerialText returns a serial number as orders keep it.
func SerialText(cert *x509.Certificate) string { return cert.SerialNumber.Text(16) }

func recordOf(leaf *x509.Certificate) v1alpha1.AcmeCertificate {
	digest, key := sha256.Sum256(leaf.Raw), sha256.Sum256(leaf.RawSubjectPublicKeyInfo)
	id := pki.CertID(leaf)
	if len(id) > maxCertID {
		id = "" // then it has no renewal information
	}
	return v1alpha1.AcmeCertificate{
		Serial: SerialText(leaf), CertID: id, NotBefore: *whole(leaf.NotBefore), NotAfter: *whole(leaf.NotAfter),
		Digest: hex.EncodeToString(digest[:]), KeyDigest: hex.EncodeToString(key[:]),
	}
}

// ByServer is recorded as the revoker of a certificate that did not match its order.
const ByServer = "server"

// WrongLeaf returns the record, without the chain, of a certificate that is not
// what was ordered. It counts as revoked. It is nil if the answer cannot be read.
func WrongLeaf(answer []byte, now time.Time) *v1alpha1.AcmeCertificate {
	certs, err := pki.ParseCertificates(answer)
	if err != nil || len(certs[0].SerialNumber.Bytes()) > maxSerial {
		return nil
	}
	record := recordOf(certs[0])
	record.Revoked = &v1alpha1.AcmeRevoked{Time: *whole(now), By: ByServer}
	return &record
}

// The longest identifier of a certificate and the longest chain, in PEM, that
// orders keep.
const (
	maxCertID = 128
	maxChain  = 128 << 10
)
