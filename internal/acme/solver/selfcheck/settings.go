// Package selfcheck looks at a challenge's answer as an ACME server is going to.
package selfcheck

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Policy selects what is checked before an ACME server is asked to validate.
type Policy string

// Policies of checks.
const (
	// Full checks that this process answers, and that the public address does.
	Full Policy = "Full"
	// Local checks that this process answers.
	Local Policy = "Local"
	// None checks nothing.
	None Policy = "None"
)

// Validate returns an error that begins with the path of the field.
func (p Policy) Validate(field string) error {
	if !slices.Contains([]Policy{Full, Local, None}, p) {
		return fmt.Errorf("%s: %q is not one of %s, %s and %s", field, p, Full, Local, None)
	}
	return nil
}

// UnreachableFor is how long the public address may be out of reach from here
// until the answer of this process alone is enough. ACME servers are elsewhere:
// many networks do not let a host reach its own public address.
const UnreachableFor = time.Minute

// CheckNameservers returns an error that begins with the path of the field, for
// the first text that is not ADDRESS:PORT.
func CheckNameservers(field string, servers []string) error {
	for i, server := range servers {
		if at, err := netip.ParseAddrPort(server); err != nil || at.Port() == 0 {
			return fmt.Errorf("%s[%d]: %q is not ADDRESS:PORT, such as 192.0.2.53:53 or [2001:db8::53]:53", field, i, server)
		}
	}
	return nil
}
