package certpolicy

import (
	"cmp"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/crypto/cryptobyte"
	cryptobyteasn1 "golang.org/x/crypto/cryptobyte/asn1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/expression"
	"github.com/certplane/certplane/internal/policy/request"
)

// content is the content of a certificate, or the content that a request asks for. The
// conditions of policies apply to it.
type content struct {
	// Content is the part that expressions read. Usages are names of the API, or the
	// object identifiers of extended usages without one.
	expression.Content
	// grouped is set if several attributes of the subject are in one relative
	// distinguished name, other than the values of one list.
	grouped bool
	// usagesKnown is false if the signer chooses the usages.
	usagesKnown bool
	lifetime    lifetime
	constraints *pki.NameConstraints
	// extensions are the OIDs of the other extensions.
	extensions []string
}

// lifetime is how long a certificate is valid. A certificate that begins before
// the decision has two: shortest from the decision on, longest from its
// beginning on.
type lifetime struct {
	known             bool
	shortest, longest time.Duration
}

// contentOf returns the content that the decision is about: of the finished
// certificate, of the certificate that the signer would issue, or of the request.
func contentOf(in *Input) (*content, error) {
	r := &in.Request
	if err := readable(r); err != nil {
		return nil, err
	}
	for _, cert := range []*x509.Certificate{in.Certificate, in.Prospective} {
		if cert == nil {
			continue
		}
		from := in.Time
		if in.Stage == v1alpha1.StageAnswer { // it was issued before, and had all of its lifetime then
			from = cert.NotBefore
		}
		c, err := ofCertificate(cert, from)
		if err != nil {
			return nil, fmt.Errorf("the certificate cannot be judged: %w", err)
		}
		c.extensions = requestedExtensions(r.PKCS10)
		return c, nil
	}
	return ofRequest(r)
}

// readable returns an error if the request contains parts that its view does not show,
// or that programs read differently.
func readable(r *request.Request) error {
	switch {
	case r.Unreadable != nil:
		return r.Unreadable
	case len(r.PEM) > pki.MaxRequestBytes:
		return fmt.Errorf("the request has %d bytes, more than %d", len(r.PEM), pki.MaxRequestBytes)
	case r.PKCS10 == nil:
		return nil
	}
	_, err := pki.ReadNameConstraints(r.PKCS10.Extensions)
	return cmp.Or(pki.StrictPEM(r.PEM), r.PKCS10.Strict(), err)
}

func ofRequest(r *request.Request) (*content, error) {
	c := &content{
		Content: expression.RequestContent(r), usagesKnown: r.Kind != v1alpha1.PodCertificateRequests,
		extensions: requestedExtensions(r.PKCS10),
	}
	if err := c.readLifetime(r); err != nil {
		return nil, err
	}
	c.Usages = usageNames(r.Usages)
	asked := r.PKCS10
	if asked == nil {
		return c, nil
	}
	c.addUsages(asked.KeyUsage.Value, asked.ExtKeyUsage.Value)
	if err := c.readSubject(asked.Subject.Names, asked.RawSubject); err != nil {
		return nil, err
	}
	var err error
	c.constraints, err = pki.ReadNameConstraints(asked.Extensions)
	return c, err
}

// readLifetime reads the requested lifetime. Requests for issuers can have it
// in an annotation.
func (c *content) readLifetime(r *request.Request) error {
	duration := r.Duration
	if r.Issuer != nil {
		terms, err := r.Terms()
		if err != nil {
			return err
		}
		duration = terms.Duration
	}
	if duration != nil {
		c.lifetime = lifetime{known: true, shortest: *duration, longest: *duration}
		c.Lifetime = duration
	}
	return nil
}

func ofCertificate(cert *x509.Certificate, now time.Time) (*content, error) {
	view := pki.ReadRequest(&x509.CertificateRequest{Extensions: cert.Extensions})
	for _, err := range []error{view.OtherNames.Err, view.KeyUsage.Err, view.ExtKeyUsage.Err} {
		if err != nil {
			return nil, err
		}
	}
	c := &content{usagesKnown: true, Content: expression.CertificateContent(cert, view.OtherNames.Value)}
	c.lifetime = lifetime{known: true, longest: cert.NotAfter.Sub(cert.NotBefore)}
	c.lifetime.shortest = c.lifetime.longest
	if now.After(cert.NotBefore) {
		c.lifetime.shortest = cert.NotAfter.Sub(now)
	}
	c.Lifetime = &c.lifetime.longest
	c.addUsages(cert.KeyUsage, view.ExtKeyUsage.Value)
	if err := c.readSubject(cert.Subject.Names, cert.RawSubject); err != nil {
		return nil, err
	}
	var err error
	c.constraints, err = pki.ReadNameConstraints(cert.Extensions)
	return c, err
}

// readSubject checks the attributes of a subject. All must be texts.
func (c *content) readSubject(attributes []pkix.AttributeTypeAndValue, raw []byte) error {
	for _, a := range attributes {
		if _, isText := a.Value.(string); !isText {
			return fmt.Errorf("the subject has an attribute %v that is not a text", a.Type)
		}
	}
	if len(raw) == 0 || !hasGroups(raw) {
		return nil
	}
	var sequence pkix.RDNSequence
	if rest, err := asn1.Unmarshal(raw, &sequence); err != nil || len(rest) > 0 {
		return errors.New("the subject is malformed")
	}
	c.grouped = slices.ContainsFunc(sequence, mixes)
	return nil
}

// hasGroups reports whether a subject may have several attributes in one relative
// distinguished name: few do, and reading all of it takes long.
func hasGroups(raw []byte) bool {
	var sequence cryptobyte.String
	if input := cryptobyte.String(raw); !input.ReadASN1(&sequence, cryptobyteasn1.SEQUENCE) || !input.Empty() {
		return true
	}
	for !sequence.Empty() {
		var set cryptobyte.String
		if !sequence.ReadASN1(&set, cryptobyteasn1.SET) || !set.SkipASN1(cryptobyteasn1.SEQUENCE) || !set.Empty() {
			return true
		}
	}
	return false
}

// mixes reports whether a relative distinguished name has several attributes that
// programs could tell apart or order differently. Go's crypto/x509, and so
// cert-manager, writes all organizations into one: as values of one list, they
// have no order.
func mixes(set pkix.RelativeDistinguishedNameSET) bool {
	if len(set) < 2 {
		return false
	}
	first := set[0].Type
	return !isListed(first.String()) ||
		slices.ContainsFunc(set, func(a pkix.AttributeTypeAndValue) bool { return !a.Type.Equal(first) })
}

// addUsages adds usages to the usages of c.
func (c *content) addUsages(key x509.KeyUsage, purposes []asn1.ObjectIdentifier) {
	named := pki.Usages{Key: key, Extended: pki.ExtKeyUsagesOf(purposes)}
	usages := slices.Clone(c.Usages)
	for _, name := range named.Names() {
		if !slices.Contains(usages, name) {
			usages = append(usages, name)
		}
	}
	for _, id := range purposes {
		if len(pki.ExtKeyUsagesOf([]asn1.ObjectIdentifier{id})) == 0 {
			usages = append(usages, id.String())
		}
	}
	c.Usages = usages
}

// usageNames returns usages without repeats, one name for each.
func usageNames(usages []string) []string {
	var names []string
	for _, usage := range usages {
		if usage = usageName(usage); !slices.Contains(names, usage) {
			names = append(names, usage)
		}
	}
	return names
}

// usageName returns the name with which a usage is compared: two names of the API are
// synonyms of others, and named extended usages can be given by their identifiers.
func usageName(usage string) string {
	if id, err := pki.ParseOID(usage); err == nil {
		named := pki.Usages{Extended: pki.ExtKeyUsagesOf([]asn1.ObjectIdentifier{id})}
		if names := named.Names(); len(names) == 1 {
			return names[0]
		}
	}
	parsed, err := pki.ParseUsages([]string{usage})
	if names := parsed.Names(); err == nil && len(names) == 1 {
		return names[0]
	}
	return usage
}

// values returns the values of the attributes of a type.
func (c *content) values(oid string) []string {
	var values []string
	for _, a := range c.Subject {
		if a.OID == oid {
			values = append(values, a.Value)
		}
	}
	return values
}

// requestedExtensions returns the extensions that no other part of a request's
// view shows.
func requestedExtensions(asked *pki.Request) []string {
	if asked == nil {
		return nil
	}
	var ids []string
	for _, e := range asked.Other {
		if !e.Id.Equal(pki.OIDNameConstraints) {
			ids = append(ids, e.Id.String())
		}
	}
	return ids
}
