package issuance

import (
	"time"

	"github.com/certplane/certplane/internal/policy/issuance/secret"
)

// Maintain reports whether a Secret has to be written again with the
// certificate that it has: because its Certificate asks for other labels,
// annotations, formats or keystores, another client has changed them, or the
// password of a keystore has changed. A missing password is empty. There is
// nothing to do if the drift is empty. It is always empty while a certificate
// is being issued, and for a Secret that has no certificate or belongs to
// another Certificate.
func Maintain(s Situation, owned bool, passwords secret.Passwords, now time.Time) (secret.Content, secret.Drift, error) {
	if isIssuing(s.Certificate) || isDeleted(s.Certificate) {
		return secret.Content{}, "", nil
	}
	i := inspect(s, now)
	if !i.find((*inspection).checkConflicting, (*inspection).checkExists, (*inspection).checkData, (*inspection).checkPair, (*inspection).checkName).None() {
		return secret.Content{}, "", nil
	}
	content, ok := secret.Existing(s.Certificate, s.Secret)
	if !ok {
		return secret.Content{}, "", nil
	}
	drift, err := content.Drift(s.Secret, owned, passwords)
	return content, drift, err
}
