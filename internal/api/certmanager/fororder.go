package certmanager

import (
	"regexp"
	"strings"
)

// OrderRequestPrefix is the prefix of the names of requests for orders of ACME clients.
const OrderRequestPrefix = "acme-"

// forOrder matches the names of these requests: the rest is the name of the order, 26
// random characters.
var forOrder = regexp.MustCompile(`^` + OrderRequestPrefix + `[a-z2-7]{26}$`)

// IsForOrder reports whether a request has the name and the kind of requester of a request
// for an order of an ACME client. Neither can change after its creation. Others can make
// such requests: signers issue less for them, never more.
func IsForOrder(requester, name string) bool {
	return strings.HasPrefix(requester, "system:serviceaccount:") && forOrder.MatchString(name)
}
