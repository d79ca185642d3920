package pki

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// StatusInfo sets what certificates tell relying parties about their revocation. The zero value
// sets nothing.
type StatusInfo struct {
	// ListURL returns the URL, http://HOST/..., of the revocation list of a CA; empty if it has
	// none. It is called only for CAs that can sign lists. Nil: no URLs.
	ListURL func(ca *x509.Certificate) string
	// ShortLived is the longest lifetime of certificates that need no list.
	ShortLived time.Duration
	// NoRevAvail adds the extension of RFC 9608 to short-lived certificates of end entities.
	NoRevAvail bool
}

// DefaultShortLived is the default of StatusInfo.ShortLived.
const DefaultShortLived = 24 * time.Hour

// addTo adds to the template of a certificate that ca issues.
func (s StatusInfo) addTo(template, ca *x509.Certificate) {
	short := template.NotAfter.Sub(template.NotBefore) <= s.ShortLived
	switch {
	case short && s.NoRevAvail && !template.IsCA:
		template.ExtraExtensions = append(slices.Clip(template.ExtraExtensions), pkix.Extension{Id: oidNoRevAvail, Value: asn1Null})
	case !short && s.ListURL != nil && checkSignsLists(ca) == nil:
		if where := s.ListURL(ca); where != "" {
			template.CRLDistributionPoints = []string{where}
		}
	}
}

// asn1Null is the encoding of NULL.
var asn1Null = []byte{0x05, 0x00}

// checkListURL: RFC 5280 section 4.2.1.13. The points that an issuer of cert-manager.io sets are
// its user's, and are not checked.
func (d draft) checkListURL() error {
	point := findExtension(d.leaf.Extensions, oidDistributionPoints)
	if d.status.ListURL == nil || point == nil {
		return nil
	}
	if len(d.leaf.CRLDistributionPoints) != 1 || point.Critical || !bytes.Equal(point.Value, onePoint(d.leaf.CRLDistributionPoints[0])) {
		return errors.New("a CRL distribution point must be one URL without reasons and without an issuer, and not critical")
	}
	if where, err := url.Parse(d.leaf.CRLDistributionPoints[0]); err != nil || where.Scheme != "http" || where.Host == "" {
		return fmt.Errorf("CRL distribution point %q is not a URL with http and a host", d.leaf.CRLDistributionPoints[0])
	}
	return nil
}

// onePoint returns the extension with one distribution point, whose only name is a URI.
func onePoint(uri string) []byte {
	value := []byte(uri)
	for _, in := range []asn1.RawValue{
		{Class: asn1.ClassContextSpecific, Tag: 6},           // uniformResourceIdentifier
		{Class: asn1.ClassContextSpecific, IsCompound: true}, // fullName
		{Class: asn1.ClassContextSpecific, IsCompound: true}, // distributionPoint
		{Tag: asn1.TagSequence, IsCompound: true},
		{Tag: asn1.TagSequence, IsCompound: true},
	} {
		in.Bytes = value
		value, _ = asn1.Marshal(in) // only a FullBytes that is not ASN.1 fails
	}
	return value
}

// checkNoRevAvail: RFC 9608 section 4.
func (d draft) checkNoRevAvail() error {
	extension := findExtension(d.leaf.Extensions, oidNoRevAvail)
	switch {
	case extension == nil:
		return nil
	case d.kind == authority:
		return errors.New("noRevAvail has no place in a CA certificate (RFC 9608 section 4)")
	case extension.Critical || !bytes.Equal(extension.Value, asn1Null):
		return errors.New("noRevAvail must be NULL, and not critical (RFC 9608 section 2)")
	case len(d.leaf.CRLDistributionPoints)+len(d.leaf.OCSPServer) > 0:
		return errors.New("noRevAvail contradicts a CRL distribution point or an OCSP server (RFC 9608 section 4)")
	}
	return nil
}
