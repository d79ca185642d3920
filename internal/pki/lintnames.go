package pki

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// checkSubject: RFC 5280 section 4.1.2.6. The upper bounds on lengths are not
// enforced: names of Kubernetes identities exceed them.
func (d draft) checkSubject() error {
	if bytes.Equal(d.leaf.RawSubject, emptyName[:]) {
		return d.checkNameless()
	}
	for _, attribute := range d.leaf.Subject.Names {
		if value, _ := attribute.Value.(string); strings.ContainsFunc(value, unicode.IsControl) {
			return fmt.Errorf("subject attribute %v contains a control character", attribute.Type)
		}
	}
	return nil
}

// checkOwnName: RFC 5280 section 4.1.2.6 again. Verifiers compare names by
// section 7.1, so another spelling of the CA's name counts as the CA's name.
func (d draft) checkOwnName() error {
	if bytes.Equal(d.ca.RawSubject, emptyName[:]) {
		return nil // it has no name
	}
	if bytes.Equal(d.leaf.RawSubject, d.ca.RawSubject) || sameDN(d.leaf.RawSubject, d.ca.RawSubject) {
		return errors.New("subject is the CA's own name, which only the CA may bear (RFC 5280 section 4.1.2.6)")
	}
	return nil
}

// checkNameless: a certificate without a subject must have alternative names,
// and their extension must be critical.
func (d draft) checkNameless() error {
	for _, extension := range d.leaf.Extensions {
		if extension.Id.Equal(OIDSubjectAltName) {
			if !extension.Critical {
				return errors.New("subjectAltName must be critical when the subject is empty (RFC 5280 section 4.2.1.6)")
			}
			return nil
		}
	}
	return errors.New("certificate would have no name: subject and subjectAltName are empty (RFC 5280 section 4.1.2.6)")
}

// checkNames: RFC 5280 section 4.2.1.6.
func (d draft) checkNames() error {
	for _, name := range d.leaf.DNSNames {
		if !ValidDNSName(strings.TrimPrefix(name, "*.")) {
			return fmt.Errorf("DNS name %q is malformed", name)
		}
	}
	for _, address := range d.leaf.EmailAddresses {
		if !ValidMailbox(address) {
			return fmt.Errorf("e-mail address %q is malformed", address)
		}
	}
	for _, uri := range d.leaf.URIs {
		if !uri.IsAbs() || uri.Opaque == "" && uri.Host == "" && uri.Path == "" {
			return fmt.Errorf("URI %q must be absolute and name something", uri)
		}
	}
	return nil
}

// checkUnchanged: a verifier must read the names that were requested and
// reviewed. Requests and certificates are parsed differently: a name with two
// readings would be reviewed as one and used as the other.
func (d draft) checkUnchanged() error {
	if len(d.template.RawSubject) > 0 && !reflect.DeepEqual(d.leaf.Subject.Names, d.template.Subject.Names) {
		return errors.New("subject reads differently in a certificate than in the request")
	}
	if !sameNames(d.leaf, d.template) {
		return errors.New("alternative names read differently in a certificate than in the request")
	}
	return nil
}

func sameNames(a, b *x509.Certificate) bool {
	return slices.Equal(a.DNSNames, b.DNSNames) &&
		slices.Equal(a.EmailAddresses, b.EmailAddresses) &&
		slices.EqualFunc(a.IPAddresses, b.IPAddresses, net.IP.Equal) &&
		slices.EqualFunc(a.URIs, b.URIs, func(x, y *url.URL) bool { return x.String() == y.String() })
}

// ValidDNSName reports whether a name is valid by RFC 1034 section 3.5 as
// relaxed by RFC 1123 section 2.1. It also allows the underscore, which service
// names have. No verifier could ever match other names.
func ValidDNSName(name string) bool {
	if len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if len(label) == 0 || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		if strings.ContainsFunc(label, notHostCharacter) {
			return false
		}
	}
	return true
}

func notHostCharacter(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
}

// ValidMailbox reports whether address has the form local-part@domain of RFC
// 2821 section 4.1.2. It does not parse quoted local parts.
func ValidMailbox(address string) bool {
	at := strings.LastIndexByte(address, '@')
	if at < 1 {
		return false
	}
	local, domain := address[:at], address[at+1:]
	return ValidDNSName(domain) && !strings.ContainsFunc(local, func(c rune) bool {
		return c <= ' ' || c > '~' || strings.ContainsRune(`@<>()[],;:\`, c)
	})
}
