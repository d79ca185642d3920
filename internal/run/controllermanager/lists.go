package controllermanager

import (
	"github.com/certplane/certplane/internal/controller/publishlists"
	"github.com/certplane/certplane/internal/rights"
)

// CAs returns the CAs whose certificates this process signs now, and former ones. complete is false while
// Signers are being opened.
func (c Config) CAs() (all []publishlists.CA, complete bool) {
	if c.Chooses(rights.Sign) {
		issuers, err := c.issuers()
		if err != nil { // then no controller runs
			return nil, false
		}
		for _, issuer := range issuers {
			if authority, err := issuer.ca.Current(); err == nil {
				all = append(all, publishlists.NewCA(issuer.name, authority))
			}
		}
	}
	if !c.followsSigners() {
		return all, true
	}
	for _, signer := range c.declared.All() {
		for _, former := range signer.Former {
			all = append(all, publishlists.CA{Signer: signer.Name, Lists: former.ListAuthority, Ends: former.Until})
		}
		if signer.CA == nil {
			continue
		}
		if authority, err := signer.CA(); err == nil {
			all = append(all, publishlists.NewCA(signer.Name, authority))
		}
	}
	return all, c.declared.Complete()
}
