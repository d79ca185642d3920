package acmeorder

import (
	"net/url"
	"strings"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

// The limits for contacts.
const (
	maxContacts = 10
	maxAddress  = 254
)

// CheckContacts checks the contacts of an account (RFC 8555 section 7.3).
func CheckContacts(contacts []string, required bool) *rfc8555.Problem {
	switch {
	case len(contacts) > maxContacts:
		return rfc8555.NewProblem(400, rfc8555.ProblemInvalidContact, "%d contacts are more than %d", len(contacts), maxContacts)
	case required && len(contacts) == 0:
		return rfc8555.NewProblem(400, rfc8555.ProblemInvalidContact, "a contact is required")
	}
	for _, contact := range contacts {
		if p := checkContact(contact); p != nil {
			return p
		}
	}
	return nil
}

func checkContact(contact string) *rfc8555.Problem {
	scheme, address, found := strings.Cut(contact, ":")
	if !found || !strings.EqualFold(scheme, "mailto") {
		return rfc8555.NewProblem(400, rfc8555.ProblemUnsupportedContact, "the contact %s is not a mailto URL", rfc8555.Quote(contact))
	}
	refuse := func(why string) *rfc8555.Problem {
		return rfc8555.NewProblem(400, rfc8555.ProblemInvalidContact, "the contact %s %s", rfc8555.Quote(contact), why)
	}
	if strings.ContainsAny(address, "?#") {
		return refuse("has header fields: give the address alone")
	}
	decoded, err := url.PathUnescape(address)
	switch {
	case err != nil:
		return refuse("cannot be decoded")
	case len(decoded) > maxAddress || len(address) > maxAddress:
		return refuse("is longer than 254 characters")
	case !isOneAddress(decoded):
		return refuse("is not exactly one e-mail address in ASCII")
	}
	return nil
}

// isOneAddress: separators, quotes and white space are refused, however they are
// written.
func isOneAddress(address string) bool {
	for _, c := range []byte(address) {
		if c <= ' ' || c > '~' || strings.IndexByte(`,;:<>()[]"\`, c) >= 0 {
			return false
		}
	}
	local, domain, _ := strings.Cut(address, "@")
	return local != "" && domain != "" && !strings.Contains(domain, "@") && !strings.HasPrefix(domain, ".") && !strings.HasSuffix(domain, ".")
}
