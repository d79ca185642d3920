package pki

import (
	"fmt"
	"slices"
	"strings"
)

// Reason is why a certificate was revoked: the CRLReason of RFC 5280 section 5.3.1. There is
// no certificateHold: a revocation is final.
type Reason uint8

// The reasons.
const (
	ReasonUnspecified          Reason = 0
	ReasonKeyCompromise        Reason = 1
	ReasonCACompromise         Reason = 2 // of CA certificates only
	ReasonAffiliationChanged   Reason = 3
	ReasonSuperseded           Reason = 4
	ReasonCessationOfOperation Reason = 5
	ReasonPrivilegeWithdrawn   Reason = 9
)

var reasonNames = map[Reason]string{
	ReasonUnspecified:          "Unspecified",
	ReasonKeyCompromise:        "KeyCompromise",
	ReasonCACompromise:         "CACompromise",
	ReasonAffiliationChanged:   "AffiliationChanged",
	ReasonSuperseded:           "Superseded",
	ReasonCessationOfOperation: "CessationOfOperation",
	ReasonPrivilegeWithdrawn:   "PrivilegeWithdrawn",
}

// Reasons returns all reasons, by their codes.
func Reasons() []Reason {
	return []Reason{
		ReasonUnspecified, ReasonKeyCompromise, ReasonCACompromise, ReasonAffiliationChanged,
		ReasonSuperseded, ReasonCessationOfOperation, ReasonPrivilegeWithdrawn,
	}
}

// Replaces reports whether the reason asks for another certificate with another key. The other
// reasons mean that the certificate is not to exist any more.
func (r Reason) Replaces() bool {
	return r == ReasonKeyCompromise || r == ReasonCACompromise || r == ReasonSuperseded
}

func (r Reason) String() string {
	if name, known := reasonNames[r]; known {
		return name
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}

// ParseReason parses the text that String returns.
func ParseReason(text string) (Reason, error) {
	reasons := Reasons()
	if i := slices.IndexFunc(reasons, func(r Reason) bool { return r.String() == text }); i >= 0 {
		return reasons[i], nil
	}
	var known []string
	for _, r := range reasons {
		known = append(known, r.String())
	}
	return 0, fmt.Errorf("unknown reason %q: use one of %s", text, strings.Join(known, ", "))
}
