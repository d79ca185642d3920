package ask

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
)

// pkcs10 creates the PKCS#10 request, in DER.
func (m *Maker) pkcs10(ask *v1alpha1.PolicyTestRequest) ([]byte, error) {
	key, err := m.Keys.Get(ask.Key)
	if err != nil {
		return nil, fmt.Errorf("ask.key: %w", err)
	}
	content, err := contentOf(ask)
	if err != nil {
		return nil, err
	}
	text, err := content.Request(key)
	if err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	block, _ := pem.Decode(text)
	more, err := extensions(ask)
	if err != nil {
		return nil, err
	}
	if len(more) == 0 && ask.Raw == nil {
		return block.Bytes, nil
	}
	made, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	template := &x509.CertificateRequest{RawSubject: made.RawSubject, ExtraExtensions: append(made.Extensions, more...)}
	if err := replace(template, ask.Raw); err != nil {
		return nil, err
	}
	return x509.CreateCertificateRequest(rand.Reader, template, key)
}

func contentOf(ask *v1alpha1.PolicyTestRequest) (pki.Content, error) {
	var content pki.Content
	subject, err := subjectOf(ask)
	if err != nil {
		return content, err
	}
	if content.RawSubject, err = pki.EncodeDN(subject); err != nil {
		return content, fmt.Errorf("ask.subject: %w", err)
	}
	if content.Names, err = namesOf(ask); err != nil {
		return content, err
	}
	content.Constraints, err = constraintsOf(ask.NameConstraints)
	return content, err
}

func subjectOf(ask *v1alpha1.PolicyTestRequest) (pkix.RDNSequence, error) {
	name := pkix.Name{CommonName: ask.CommonName}
	if s := ask.Subject; s != nil {
		name.SerialNumber, name.Organization, name.OrganizationalUnit, name.Country = s.SerialNumber, s.Organizations, s.OrganizationalUnits, s.Countries
		name.Locality, name.Province, name.StreetAddress, name.PostalCode = s.Localities, s.Provinces, s.StreetAddresses, s.PostalCodes
		for i, other := range s.Other {
			oid, err := pki.ParseOID(other.OID)
			if err != nil {
				return nil, fmt.Errorf("ask.subject.other[%d].oid: %w", i, err)
			}
			name.ExtraNames = append(name.ExtraNames, pkix.AttributeTypeAndValue{Type: oid, Value: other.Value})
		}
	}
	return alone(name.ToRDNSequence()), nil
}

// alone puts each attribute into a separate relative distinguished name: Go combines
// several of one type, which policies refuse.
func alone(sequence pkix.RDNSequence) pkix.RDNSequence {
	var flat pkix.RDNSequence
	for _, set := range sequence {
		for _, attribute := range set {
			flat = append(flat, pkix.RelativeDistinguishedNameSET{attribute})
		}
	}
	return flat
}

func namesOf(ask *v1alpha1.PolicyTestRequest) (pki.AltNames, error) {
	names := pki.AltNames{DNSNames: ask.DNSNames, EmailAddresses: ask.EmailAddresses}
	for i, text := range ask.IPAddresses {
		ip := net.ParseIP(text)
		if ip == nil {
			return names, fmt.Errorf("ask.ipAddresses[%d]: %q is not an IP address", i, text)
		}
		names.IPAddresses = append(names.IPAddresses, ip)
	}
	for i, text := range ask.URIs {
		uri, err := url.Parse(text)
		if err != nil {
			return names, fmt.Errorf("ask.uris[%d]: %w", i, err)
		}
		names.URIs = append(names.URIs, uri)
	}
	for i, other := range ask.OtherNames {
		oid, err := pki.ParseOID(other.OID)
		if err != nil {
			return names, fmt.Errorf("ask.otherNames[%d].oid: %w", i, err)
		}
		names.OtherNames = append(names.OtherNames, pki.OtherName{Type: oid, Value: other.Value})
	}
	return names, nil
}

func constraintsOf(c *v1alpha1.PolicyTestNameConstraints) (*pki.NameConstraints, error) {
	if c == nil {
		return nil, nil
	}
	constraints := &pki.NameConstraints{Critical: c.Critical}
	for _, one := range []struct {
		field string
		names *v1alpha1.PermittedNames
		to    *pki.NameTrees
	}{{"permitted", c.Permitted, &constraints.Permitted}, {"excluded", c.Excluded, &constraints.Excluded}} {
		if one.names == nil {
			continue
		}
		*one.to = pki.NameTrees{DNSDomains: one.names.DNS, URIDomains: one.names.URI, EmailAddresses: one.names.Email}
		for i, text := range one.names.IP {
			_, network, err := net.ParseCIDR(text)
			if err != nil {
				return nil, fmt.Errorf("ask.nameConstraints.%s.ip[%d]: %w", one.field, i, err)
			}
			one.to.IPRanges = append(one.to.IPRanges, network)
		}
	}
	return constraints, nil
}

// extensions returns the extensions that pki.Content lacks.
func extensions(ask *v1alpha1.PolicyTestRequest) ([]pkix.Extension, error) {
	var all []pkix.Extension
	if ask.IsCA || ask.MaxPathLength != nil {
		constraints := pki.BasicConstraints{IsCA: ask.IsCA, MaxPathLen: -1}
		if ask.MaxPathLength != nil {
			constraints.MaxPathLen = int(*ask.MaxPathLength)
		}
		value, err := asn1.Marshal(constraints)
		if err != nil {
			return nil, fmt.Errorf("ask.isCA: %w", err)
		}
		all = append(all, pkix.Extension{Id: pki.OIDBasicConstraints, Critical: true, Value: value})
	}
	for i, e := range ask.Extensions {
		oid, err := pki.ParseOID(e.OID)
		if err != nil {
			return nil, fmt.Errorf("ask.extensions[%d].oid: %w", i, err)
		}
		value, err := hex.DecodeString(e.Value)
		if err != nil {
			return nil, fmt.Errorf("ask.extensions[%d].value: %w", i, err)
		}
		all = append(all, pkix.Extension{Id: oid, Critical: e.Critical, Value: value})
	}
	return all, nil
}

// replace replaces parts of a request by possibly invalid content.
func replace(template *x509.CertificateRequest, raw *v1alpha1.PolicyTestRaw) error {
	if raw == nil {
		return nil
	}
	if raw.Subject != "" {
		subject, err := hex.DecodeString(raw.Subject)
		if err != nil {
			return fmt.Errorf("ask.raw.subject: %w", err)
		}
		template.RawSubject = subject
	}
	if raw.SAN != "" {
		var rest []pkix.Extension
		for _, e := range template.ExtraExtensions {
			if !e.Id.Equal(pki.OIDSubjectAltName) {
				rest = append(rest, e)
			}
		}
		template.ExtraExtensions = rest
	}
	for _, one := range []struct{ field, text string }{{"san", raw.SAN}, {"secondSAN", raw.SecondSAN}} {
		if one.text == "" {
			continue
		}
		value, err := hex.DecodeString(one.text)
		if err != nil {
			return fmt.Errorf("ask.raw.%s: %w", one.field, err)
		}
		template.ExtraExtensions = append(template.ExtraExtensions, pkix.Extension{Id: pki.OIDSubjectAltName, Value: value})
	}
	return nil
}
