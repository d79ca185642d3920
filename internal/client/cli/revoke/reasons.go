package revoke

import "github.com/certplane/certplane/internal/pki"

// meanings explain the reasons.
var meanings = map[pki.Reason]string{
	pki.ReasonUnspecified:          "no reason is given",
	pki.ReasonKeyCompromise:        "somebody else has, or may have, the private key; no request with this key is signed any more",
	pki.ReasonCACompromise:         "the same, for the certificate of a CA",
	pki.ReasonAffiliationChanged:   "the subject has changed: somebody left, or has another name",
	pki.ReasonSuperseded:           "another certificate has replaced it",
	pki.ReasonCessationOfOperation: "it is not needed any more: the host or the service is gone",
	pki.ReasonPrivilegeWithdrawn:   "the subject has lost a right that the certificate states",
}

// Meaning says in a phrase when to give a reason.
func Meaning(r pki.Reason) string { return meanings[r] }
