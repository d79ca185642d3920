//go:build pkcs11

package pkcs11

import (
	"fmt"

	"github.com/miekg/pkcs11"
)

// slot is the slot of a token.
type slot struct {
	id    uint
	token pkcs11.TokenInfo
}

// findSlot returns the only slot whose token the URI describes.
func findSlot(module *pkcs11.Ctx, uri *URI) (slot, error) {
	ids, err := module.GetSlotList(true)
	if err != nil {
		return slot{}, fmt.Errorf("listing tokens: %w", err)
	}
	var found []slot
	var others []string
	for _, id := range ids {
		s, matches, err := look(module, uri, id)
		switch {
		case err != nil:
			return slot{}, fmt.Errorf("looking at the token in slot %d: %w", id, err)
		case matches:
			found = append(found, s)
		default:
			others = append(others, s.token.Label)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return slot{}, fmt.Errorf("no token matches; the tokens are %q", others)
	default:
		return slot{}, fmt.Errorf("%d tokens match: add serial or slot-id to the URI", len(found))
	}
}

func look(module *pkcs11.Ctx, uri *URI, id uint) (slot, bool, error) {
	token, err := module.GetTokenInfo(id)
	if err != nil {
		return slot{}, false, err
	}
	reader, err := module.GetSlotInfo(id)
	if err != nil {
		return slot{}, false, err
	}
	facts := map[string]string{
		"token": token.Label, "manufacturer": token.ManufacturerID, "serial": token.SerialNumber, "model": token.Model,
		"slot-description": reader.SlotDescription, "slot-manufacturer": reader.ManufacturerID, "slot-id": fmt.Sprint(id),
	}
	for name, fact := range facts {
		if wanted, ok := uri.path[name]; ok && wanted != fact {
			return slot{token: token}, false, nil
		}
	}
	return slot{id: id, token: token}, true, nil
}
