//go:build pkcs11

package pkcs11

// Validate reports whether a key can be used by this URI, as far as that can be
// checked without the token.
func Validate(uri string) error {
	_, err := Parse(uri)
	return err
}
