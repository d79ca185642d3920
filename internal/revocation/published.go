package revocation

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
)

// Published is a list that the API describes.
type Published struct {
	*inventoryv1alpha1.RevocationList
	// Chain are the certificates of the CA and of the CAs above it.
	Chain []*x509.Certificate
}

// SignerLists are the lists that verifiers of a signer's certificates need.
type SignerLists struct {
	// Own are the lists of the signer's CAs: those with the newest CA certificates first.
	Own []Published
	// Above are the lists of the CAs above them.
	Above []Published
	// Missing are the names of CAs above that have no list.
	Missing []string
	// Untrusted are the names of the signer's CAs that are not below the roots.
	Untrusted []string
}

// OfSigner returns the lists of a signer's CAs and of the CAs above. If roots is not nil, it
// leaves out CAs that are not below these roots: their lists prove nothing. It leaves out CAs
// that have ended also. The order depends on the CAs alone, so that a file of the lists changes
// only with a list.
func OfSigner(all []*inventoryv1alpha1.RevocationList, signer string, roots *x509.CertPool, now time.Time) (SignerLists, error) {
	var known []Published
	for _, list := range all {
		chain, err := pki.ParseBundle([]byte(list.CACertificates))
		switch {
		case err != nil && slices.Contains(list.SignerNames, signer):
			return SignerLists{}, fmt.Errorf("reading the CA certificates of the RevocationList %s: %w", list.Name, err)
		case err == nil:
			known = append(known, Published{list, chain})
		}
	}
	return OfChains(known, signer, roots, now), nil
}

// OfChains is OfSigner for lists whose chains have been read. Of the objects it reads the names
// and the signers.
func OfChains(all []Published, signer string, roots *x509.CertPool, now time.Time) (found SignerLists) {
	byID := map[string]Published{}
	var cas []Published
	for _, list := range all {
		if list.Name != ListID(list.Chain[0]) || now.After(list.Chain[0].NotAfter) {
			continue
		}
		byID[list.Name] = list
		if slices.Contains(list.SignerNames, signer) {
			cas = append(cas, list)
		}
	}
	slices.SortFunc(cas, func(a, b Published) int {
		return cmp.Or(b.Chain[0].NotBefore.Compare(a.Chain[0].NotBefore), strings.Compare(a.Name, b.Name))
	})
	var above []*x509.Certificate
	for _, ca := range cas {
		path, err := ca.path(roots, now)
		if err != nil {
			found.Untrusted = append(found.Untrusted, ca.Chain[0].Subject.String())
			continue
		}
		found.Own, above = append(found.Own, ca), append(above, path...)
	}
	for _, ca := range above {
		id := ListID(ca)
		has := func(p Published) bool { return p.Name == id }
		switch list, published := byID[id]; {
		case !published && !slices.Contains(found.Missing, ca.Subject.String()):
			found.Missing = append(found.Missing, ca.Subject.String())
		case published && !slices.ContainsFunc(found.Own, has) && !slices.ContainsFunc(found.Above, has):
			found.Above = append(found.Above, list)
		}
	}
	return found
}

// path returns the CAs above, up to the roots also if the list does not name them.
func (p Published) path(roots *x509.CertPool, now time.Time) ([]*x509.Certificate, error) {
	if roots == nil {
		return p.Chain[1:], nil
	}
	others := x509.NewCertPool()
	for _, ca := range p.Chain[1:] {
		others.AddCert(ca)
	}
	paths, err := p.Chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: others, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err != nil {
		return nil, err
	}
	return slices.Concat(p.Chain[1:], paths[0][1:]), nil
}

// Check returns the list in der if its CA has signed it, if it is the one that is described or
// a later one, and if it is valid now. Clocks may differ by Backdate.
func (p Published) Check(der []byte, now time.Time) (*x509.RevocationList, error) {
	list, err := x509.ParseRevocationList(der)
	if err == nil {
		err = list.CheckSignatureFrom(p.Chain[0])
	}
	switch {
	case err != nil:
	case !bytes.Equal(list.RawIssuer, p.Chain[0].RawSubject):
		err = fmt.Errorf("its issuer is %s", list.Issuer)
	case list.Number == nil || list.Number.Cmp(big.NewInt(p.Number)) < 0:
		err = fmt.Errorf("the server has not sent the list with the number %d yet", p.Number)
	case list.ThisUpdate.After(now.Add(Backdate)):
		err = fmt.Errorf("it begins at %s, after the time of this machine", list.ThisUpdate.Format(time.RFC3339))
	case !now.Before(list.NextUpdate):
		err = fmt.Errorf("it ended at %s", list.NextUpdate.Format(time.RFC3339))
	}
	if err != nil {
		return nil, fmt.Errorf("the list of %s: %w", p.Subject, err)
	}
	return list, nil
}

// pemType is the type of the PEM blocks of lists (RFC 7468 section 6).
const pemType = "X509 CRL"

// EncodeLists returns lists in PEM.
func EncodeLists(ders ...[]byte) []byte {
	var text []byte
	for _, der := range ders {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der})...)
	}
	return text
}

// ParseLists returns the lists in a file, in PEM or one in DER.
func ParseLists(data []byte) ([]*x509.RevocationList, error) {
	var ders [][]byte
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == pemType {
			ders = append(ders, block.Bytes)
		}
	}
	if len(ders) == 0 {
		ders = [][]byte{data}
	}
	var lists []*x509.RevocationList
	for _, der := range ders {
		list, err := x509.ParseRevocationList(der)
		if err != nil {
			return nil, fmt.Errorf("no revocation list, in PEM or DER: %w", err)
		}
		lists = append(lists, list)
	}
	return lists, nil
}
