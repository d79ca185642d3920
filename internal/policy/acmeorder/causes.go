package acmeorder

import (
	"encoding/hex"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// CausesOf returns the causes for early renewal of the certificates of a CA, which keyID
// identifies: signers that use another CA now. Certificates are renewed in the first half
// of the time for which the former CA is trusted, so that clients that fail can retry in
// the second half. A CA that was renewed with the same key still signs.
func CausesOf(keyID []byte, signers []v1alpha1.Signer) Causes {
	var c Causes
	id := hex.EncodeToString(keyID)
	for i := range signers {
		s := &signers[i].Status
		if s.CA != nil && s.CA.SubjectKeyID == id {
			continue
		}
		for _, ca := range s.FormerCAs {
			if ca.SubjectKeyID != id || ca.TrustedUntil == nil || ca.ReplacedTime == nil {
				continue
			}
			by := ca.ReplacedTime.Add(ca.TrustedUntil.Sub(ca.ReplacedTime.Time) / 2).Truncate(time.Second)
			if c.ReplacedBy.IsZero() || by.Before(c.ReplacedBy) {
				c = Causes{ReplacedBy: by, Since: ca.ReplacedTime.Time}
			}
		}
	}
	return c
}
