package issuance

import (
	"crypto"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
)

// ConditionRevoked is the type of the condition of a Certificate whose present certificate is
// revoked. Its reason is the reason of the revocation.
const ConditionRevoked cmv1.CertificateConditionType = "Revoked"

// revoked returns the revocation of the present certificate; the zero value if it is not
// revoked. Its reason is the reason of the revocation. The status counts where the revocation may be
// unknown: those of ended certificates are forgotten.
func (i *inspection) revoked() Finding {
	if i.leaf == nil {
		return Finding{}
	}
	if i.Revoked != nil {
		if r, ok := i.Revoked.Find(i.leaf); ok {
			next := "No other one is issued automatically: \"certplane renew\" issues one"
			if r.Reason.Replaces() {
				next = "Another one is issued, with a new key"
			}
			return found(r.Reason.String(), "The certificate was %s. %s", revokedOn(r), next)
		}
	}
	was := certmanager.CertificateCondition(i.Certificate, ConditionRevoked)
	if was == nil || i.Revoked != nil && !i.now.After(i.leaf.NotAfter) {
		return Finding{}
	}
	return Finding{Reason: was.Reason, Message: was.Message}
}

func revokedOn(r revocation.Revoked) string {
	return fmt.Sprintf("revoked on %s (%s, Revocation %s)", r.Time.Format(time.RFC3339), r.Reason, r.By.Name)
}

func (i *inspection) checkRevoked() Finding {
	if was := i.revoked(); !was.None() {
		return Finding{Reason: ReasonRevoked, Message: was.Message}
	}
	return Finding{}
}

// staysRevoked reports whether the present certificate was revoked for a reason for which no
// other one is issued automatically.
func (i *inspection) staysRevoked() bool {
	reason, err := pki.ParseReason(i.revoked().Reason)
	return err != nil || !reason.Replaces()
}

// spent returns why a key must not be used for the next certificate; empty if it may.
func (s Situation) spent(key crypto.PublicKey) string {
	if s.Revoked == nil || s.Revoked.Len() == 0 {
		return ""
	}
	if r, ok := s.Revoked.Key(key); ok {
		return "a certificate with the key was " + revokedOn(r)
	}
	leaf := inspect(s, time.Time{}).leaf
	if leaf == nil || !pki.SameKey(key, leaf.PublicKey) {
		return ""
	}
	if r, ok := s.Revoked.Find(leaf); ok && r.Reason.Replaces() {
		return "the certificate with the key was " + revokedOn(r)
	}
	return ""
}
