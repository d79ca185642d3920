// Package rollover decides how long an old root is trusted beside its
// successor.
package rollover

import (
	"crypto/x509"
	"time"
)

// Anchor is a trusted root.
type Anchor struct {
	Certificate *x509.Certificate
	// Until is when an old root stops being trusted; zero for a current root.
	Until time.Time
}

// Next returns the roots that are trusted now: first the current roots, in
// their order and without duplicates, then the old ones. An old root is trusted
// for the overlap, which begins when it was first found missing, but no longer
// than it is valid.
func Next(before []Anchor, today []*x509.Certificate, now time.Time, overlap time.Duration) []Anchor {
	var anchors []Anchor
	for _, cert := range today {
		if !trusts(anchors, cert) {
			anchors = append(anchors, Anchor{Certificate: cert})
		}
	}
	for _, old := range before {
		if old.Until.IsZero() {
			old.Until = now.Add(overlap)
		}
		if now.Before(old.Until) && !now.After(old.Certificate.NotAfter) && !trusts(anchors, old.Certificate) {
			anchors = append(anchors, old)
		}
	}
	return anchors
}

func trusts(anchors []Anchor, cert *x509.Certificate) bool {
	for _, anchor := range anchors {
		if anchor.Certificate.Equal(cert) {
			return true
		}
	}
	return false
}

// Certificates returns the certificates of anchors.
func Certificates(anchors []Anchor) []*x509.Certificate {
	var certs []*x509.Certificate
	for _, anchor := range anchors {
		certs = append(certs, anchor.Certificate)
	}
	return certs
}
