// Package identifier checks the names and addresses for which ACME clients order
// certificates, and gives each its only spelling (RFC 8555 section 7.1.3, RFC 8738).
package identifier

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unicode"

	"golang.org/x/net/idna"

	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/names"
)

// maxName is the length of a DNS name, a wildcard included (RFC 1035 section 2.3.4).
const maxName = 253

// Normalize returns the identifier in its canonical spelling: DNS names in lower case,
// addresses unchanged, since they must already be canonical. A wildcard keeps its *. The
// problem has the type malformed, or unsupportedIdentifier for other types than dns and
// ip. Whether a certificate may have the identifier is another question.
func Normalize(id rfc8555.Identifier) (rfc8555.Identifier, *rfc8555.Subproblem) {
	var err error
	switch id.Type {
	case rfc8555.IdentifierDNS:
		err = checkDNS(id.Value)
	case rfc8555.IdentifierIP:
		err = checkIP(id.Value)
	default:
		return id, rfc8555.NewSubproblem(id, rfc8555.ProblemUnsupportedIdentifier, "identifiers of the type %s are not supported", rfc8555.Quote(id.Type))
	}
	if err != nil {
		return id, rfc8555.NewSubproblem(id, rfc8555.ProblemMalformed, "%s: %v", rfc8555.Quote(id.Value), err)
	}
	return rfc8555.Identifier{Type: id.Type, Value: strings.ToLower(id.Value)}, nil // it is ASCII
}

// NormalizeAll returns the identifiers of an order, in the same order and each once.
// The problem is about all that are wrong.
func NormalizeAll(ids []rfc8555.Identifier) ([]rfc8555.Identifier, *rfc8555.Problem) {
	var normal []rfc8555.Identifier
	var wrong []rfc8555.Subproblem
	seen := map[rfc8555.Identifier]bool{}
	for _, id := range ids {
		one, problem := Normalize(id)
		if problem != nil {
			wrong = append(wrong, *problem)
		} else if !seen[one] {
			seen[one] = true
			normal = append(normal, one)
		}
	}
	if len(wrong) > 0 {
		return nil, rfc8555.Combine(wrong)
	}
	return normal, nil
}

// checkDNS: a name of RFC 1123 whose labels are ASCII, or A-labels of IDNA 2008.
func checkDNS(name string) error {
	below, isWildcard := names.CutWildcard(name)
	if err := names.CheckDNSName(below); err != nil {
		return err
	}
	labels := strings.Split(strings.ToLower(below), ".")
	switch {
	case len(name) > maxName:
		return errors.New("is longer than 253 characters")
	case strings.Contains(below, "_"):
		return errors.New("has an underscore, which no name of a host has")
	case isWildcard && len(labels) < 2:
		return errors.New("has fewer than two labels after the *")
	case isNumber(labels[len(labels)-1]):
		return errors.New("ends with a number: programs take it for an IP address")
	}
	for _, label := range labels {
		if strings.HasPrefix(label, "xn--") && !isALabel(label) {
			return fmt.Errorf("has the label %s, which is not an A-label (RFC 5890 section 2.3.2.1)", rfc8555.Quote(label))
		}
	}
	return nil
}

// isNumber reports whether inet_aton and browsers take a name with this last label for an
// IPv4 address, such as 127.1 or 0x7f.0x1.
func isNumber(label string) bool {
	digits, allowed := label, "0123456789"
	if hexadecimal, ok := strings.CutPrefix(label, "0x"); ok {
		digits, allowed = hexadecimal, "0123456789abcdef"
	}
	return strings.Trim(digits, allowed) == ""
}

// isALabel reports whether a label in lower case is the IDNA 2008 encoding of its Unicode
// form. The library follows UTS 46, which also permits symbols.
func isALabel(label string) bool {
	shown, err := idna.Registration.ToUnicode(label)
	if err != nil || strings.ContainsFunc(shown, notInLabel) {
		return false
	}
	again, err := idna.Registration.ToASCII(shown)
	return err == nil && again == label
}

// exceptions are permitted though they are neither letters nor digits; the context
// that some need is not checked (RFC 5892 sections 2.6 and 2.8).
const exceptions = "-\u00b7\u0375\u05f3\u05f4\u06fd\u06fe\u0f0b\u200c\u200d\u3007\u30fb"

// notInLabel: the letters and digits of RFC 5892 section 2.1.
func notInLabel(r rune) bool {
	return !unicode.In(r, unicode.Ll, unicode.Lu, unicode.Lo, unicode.Nd, unicode.Lm, unicode.Mn, unicode.Mc) && !strings.ContainsRune(exceptions, r)
}

// checkIP: the text of RFC 5952 section 4 or four decimal numbers (RFC 8738 section
// 3).
func checkIP(text string) error {
	address, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		return errors.New("is not an IP address: it must have no port, prefix or brackets")
	case address.Zone() != "":
		return errors.New("has a zone, which is only valid on one host")
	case address.Is4In6():
		return fmt.Errorf("is an IPv4 address in the form of IPv6: ask for %s", address.Unmap())
	case address.String() != text:
		return fmt.Errorf("is not the usual spelling: ask for %s (RFC 5952)", address)
	}
	return nil
}
