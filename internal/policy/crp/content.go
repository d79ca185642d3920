package crp

import (
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// content is what a request asks for, read once for all policies. It is not safe
// for concurrent use.
type content struct {
	request *cmv1.CertificateRequest
	// subject is Go's reading of the subject: it has only the last of several
	// values of some attributes, and lacks what is not a text.
	subject pkix.Name
	// commonName and serialNumber have all values.
	commonName, serialNumber values
	// other are the attributes that have no field of their own.
	other found
	// unreadable are the attributes whose values are not texts.
	unreadable field.ErrorList

	dnsNames, ipAddresses, uris, emailAddresses []string
	alternative                                 alternativeNames
	// denied is why the request is denied whatever is allowed.
	denied string

	key crypto.PublicKey
	// cr is nil until an expression is evaluated.
	cr proto.Message
}

// values are those of an attribute. err is why they are not known.
type values struct {
	texts []string
	err   error
}

// found are values by object identifier, in the order of the request.
type found struct {
	groups []group
	// present are all object identifiers, also those without readable values.
	present []string
}

type group struct {
	oid    string
	values []string
}

func (f *found) add(oid, value string) {
	f.present = append(f.present, oid)
	i := slices.IndexFunc(f.groups, func(g group) bool { return g.oid == oid })
	if i < 0 {
		i, f.groups = len(f.groups), append(f.groups, group{oid: oid})
	}
	f.groups[i].values = append(f.groups[i].values, value)
}

// readContent reads a request. An error means that it cannot be evaluated.
func readContent(request *cmv1.CertificateRequest) (*content, error) {
	csr, err := certmanager.ParseRequest(request.Spec.Request)
	if err != nil {
		return nil, errors.New("spec.request: " + withoutDetails(err))
	}
	c := &content{
		request: request, subject: csr.Subject, key: csr.PublicKey,
		dnsNames: csr.DNSNames, emailAddresses: csr.EmailAddresses,
	}
	for _, ip := range csr.IPAddresses {
		c.ipAddresses = append(c.ipAddresses, ip.String())
	}
	for _, uri := range csr.URIs {
		c.uris = append(c.uris, uri.String())
	}
	c.readAlternativeNames(csr.Extensions)
	if err := c.readSubject(csr.CertificateRequest); err != nil {
		return nil, errors.New("spec.request: the subject: " + withoutDetails(err))
	}
	return c, nil
}

// readSubject reads the attributes that Go's reading can lack.
func (c *content) readSubject(csr *x509.CertificateRequest) error {
	var subject pkix.RDNSequence
	switch rest, err := asn1.Unmarshal(csr.RawSubject, &subject); {
	case err != nil:
		return err
	case len(rest) > 0:
		return errors.New("it has trailing data")
	}
	for _, rdn := range subject {
		for _, attribute := range rdn {
			c.readAttribute(attribute)
		}
	}
	return nil
}

func (c *content) readAttribute(a pkix.AttributeTypeAndValue) {
	text, isText := a.Value.(string)
	named := subjectFields[a.Type.String()]
	switch {
	case named == fieldCommonName:
		c.commonName.add(a.Type, text, isText)
	case named == fieldSerialNumber:
		c.serialNumber.add(a.Type, text, isText)
	case !isText:
		path := subjectPath.Child(named)
		if named == "" {
			path = subjectPath.Child("otherAttributes").Key(a.Type.String())
			c.other.present = append(c.other.present, a.Type.String())
		}
		c.unreadable = append(c.unreadable, field.Invalid(path, notText, "subject attribute "+unsupportedText))
	case named == "":
		c.other.add(a.Type.String(), text)
	}
}

func (v *values) add(oid asn1.ObjectIdentifier, text string, isText bool) {
	if !isText {
		v.err = errors.New("subject attribute " + oid.String() + " " + unsupportedText)
		return
	}
	v.texts = append(v.texts, text)
}

const (
	notText         = "<non-string value>"
	unsupportedText = "uses an unsupported ASN.1 type or string encoding; re-issue the certificate with a UTF8String or PrintableString subject"
)

// The fields of attributes whose values are all looked at.
const (
	fieldCommonName   = "commonName"
	fieldSerialNumber = "serialNumber"
)

// subjectFields are the fields of policies for attributes of the subject, by
// object identifier.
var subjectFields = map[string]string{
	"2.5.4.3": fieldCommonName, "2.5.4.5": fieldSerialNumber,
	"2.5.4.6": "countries", "2.5.4.7": "localities", "2.5.4.8": "provinces", "2.5.4.9": "streetAddresses",
	"2.5.4.10": "organizations", "2.5.4.11": "organizationalUnits", "2.5.4.17": "postalCodes",
}

var (
	allowedPath = field.NewPath("spec", "allowed")
	subjectPath = allowedPath.Child("subject")
)

// variable returns the value of the variable cr of expressions.
func (c *content) variable() (proto.Message, error) {
	if c.cr == nil {
		d, err := newDialect()
		if err != nil {
			return nil, err
		}
		c.cr = d.requestVariable(c.request)
	}
	return c.cr, nil
}
