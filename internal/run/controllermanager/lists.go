package controllermanager

import (
	"github.com/certplane/certplane/internal/controller/publishlists"
	"github.com/certplane/certplane/internal/rights"
)

// CAs returns the CAs whose certificates this process signs now. complete is false while
// Signers are being opened.
func (c Config) CAs() (all []publishlists.CA, complete bool) {
	if c.Chooses(rights.Sign) {
		issuers, err := c.issuers()
		if err != nil { // then no controller runs
			return nil, false
		}
		for _, issuer := range issuers {
			if authority, err := issuer.ca.Current(); err == nil {
				all = append(all, publishlists.CA{Signer: issuer.name, Authority: authority})
			}
		}
	}
	if !c.followsSigners() {
		return all, true
	}
	for _, signer := range c.declared.All() {
		if signer.CA == nil {
			continue
		}
		if authority, err := signer.CA(); err == nil {
			all = append(all, publishlists.CA{Signer: signer.Name, Authority: authority})
		}
	}
	return all, c.declared.Complete()
}
