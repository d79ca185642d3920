package dns

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/certplane/certplane/internal/acme/solver/dns/resolver"
	"github.com/certplane/certplane/internal/api/certmanager"
)

// where is the note that Prepare leaves for Present and CleanUp.
type where struct {
	// Provider is the field of the spec, for people.
	Provider string `json:"provider"`
	FQDN     string `json:"fqdn"`
	Zone     string `json:"zone,omitempty"`
	// Wildcard is set if the first CNAME that was followed comes from a wildcard,
	// such as one for all hosts of a domain.
	Wildcard bool `json:"wildcard,omitempty"`
}

func (w where) String() string {
	text, err := json.Marshal(w)
	if err != nil {
		return ""
	}
	return string(text)
}

// errForeignNote means that the note of a challenge was modified: it is in the metadata of
// an object, which users can write. It must not lead to other records.
var errForeignNote = errors.New("the note about the record that was written does not fit the challenge")

// parseWhere reads the note of a challenge.
func parseWhere(text string, p plan) (where, error) {
	var w where
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		return where{}, fmt.Errorf("reading the note about the record that was written: %w", err)
	}
	switch {
	case !resolver.IsName(w.FQDN) || w.Zone != "" && !resolver.InZone(w.FQDN, w.Zone):
		return where{}, errForeignNote
	case !p.follow() && !p.begins(w.FQDN):
		return where{}, errForeignNote
	}
	return w, nil
}

// begins reports whether the CA begins to look at a name. The account may be
// unknown when the issuer is gone.
func (p plan) begins(fqdn string) bool {
	if p.kind == certmanager.TypeDNSAccount01 && p.account == "" {
		_, rest, _ := strings.Cut(p.name, ".")
		label, of, _ := strings.Cut(fqdn, ".")
		return of == rest && strings.HasPrefix(label, "_")
	}
	return fqdn == p.name
}
