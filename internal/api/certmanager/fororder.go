package certmanager

import (
	"regexp"
	"strings"
)

// OrderRequestPrefix begins the names of requests that are made for orders of ACME clients.
const OrderRequestPrefix = "acme-"

// forOrder matches the names of these requests: the rest is the name of the order, 26
// random characters.
var forOrder = regexp.MustCompile(`^` + OrderRequestPrefix + `[a-z2-7]{26}$`)

// IsForOrder reports whether a request has the name and the kind of requester of one that
// is made for an order of an ACME client. Neither can change after its creation. Others can
// make such requests: signers issue less for them, and nothing more.
func IsForOrder(requester, name string) bool {
	return strings.HasPrefix(requester, "system:serviceaccount:") && forOrder.MatchString(name)
}
