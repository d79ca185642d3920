package account

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// DecodeMAC decodes the MAC key of an external account. CAs show them as
// base64url, and some as base64, with or without padding.
func DecodeMAC(text string) ([]byte, error) {
	text = strings.NewReplacer("+", "-", "/", "_", "\n", "", "\r", "", " ", "").Replace(text)
	key, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		return nil, fmt.Errorf("%w", err) // has a position, not the key
	}
	return key, nil
}
