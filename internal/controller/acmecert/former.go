package acmecert

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

// Keys in the Secret for the roots of earlier certificates and the time until which clients
// get them. Earlier versions drop these keys.
const (
	formerKey, formerUntilKey = "former.crt", "former.until"
	// maxFormer is the maximum number of former roots.
	maxFormer = 8
)

// former are the roots of earlier certificates. They are kept until the last of these
// certificates has expired: another process may still serve it, and hosts that trust one of
// these roots can learn the next ones.
type former struct {
	roots []*x509.Certificate
	until time.Time
}

func parseFormer(data map[string][]byte) (f former, err error) {
	if len(data[formerKey]) == 0 {
		return former{}, nil
	}
	if f.roots, err = pki.ParseCertificates(data[formerKey]); err != nil {
		return former{}, fmt.Errorf("%s: %w", formerKey, err)
	}
	if f.until, err = time.Parse(time.RFC3339, string(data[formerUntilKey])); err != nil {
		return former{}, fmt.Errorf("%s: it is not a time", formerUntilKey)
	}
	return f, nil
}

func (f former) put(data map[string][]byte) {
	if len(f.roots) > 0 {
		data[formerKey], data[formerUntilKey] = pki.EncodeCertificates(f.roots...), []byte(f.until.UTC().Format(time.RFC3339))
	}
}

// shown returns the roots for clients, the roots of the current certificate first. It
// returns nothing if those are not known, because people compare the first root.
func (s state) shown(now time.Time) []*x509.Certificate {
	if len(s.roots) == 0 || !now.Before(s.former.until) {
		return s.roots
	}
	return distinct(s.roots, s.former.roots)
}

// followedBy returns the former roots of the state after s, whose certificate has the given
// source and roots. It drops roots that the same source no longer publishes: they may be
// withdrawn.
func (s state) followedBy(source string, roots []*x509.Certificate, now time.Time) former {
	next := s.former
	if !now.Before(next.until) {
		next = former{}
	}
	if s.source != source && len(s.chain) > 0 && now.Before(s.chain[0].NotAfter) {
		if all := distinct(next.roots, s.roots); len(distinct(roots, all)) > len(distinct(roots, next.roots)) {
			next.roots, next.until = all, pki.Later(next.until, s.chain[0].NotAfter)
		}
	}
	next.roots = slices.DeleteFunc(slices.Clone(next.roots), func(root *x509.Certificate) bool { return slices.ContainsFunc(roots, root.Equal) })
	next.roots = next.roots[max(0, len(next.roots)-maxFormer):]
	return next
}

// distinct returns certificates of several lists, each once.
func distinct(lists ...[]*x509.Certificate) []*x509.Certificate {
	var all []*x509.Certificate
	for _, cert := range slices.Concat(lists...) {
		if !slices.ContainsFunc(all, cert.Equal) {
			all = append(all, cert)
		}
	}
	return all
}
