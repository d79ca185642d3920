package keystore

import "github.com/certplane/certplane/internal/keystore/pkcs11"

// schemes are the places, besides files, that keys can be in.
var schemes = []scheme{
	{prefix: pkcs11.Prefix, validate: pkcs11.Validate, open: openPKCS11},
}

func openPKCS11(uri string) (vault, error) {
	token, err := pkcs11.Open(uri)
	if err != nil {
		return nil, err // and not a vault around a token that is nil
	}
	return token, nil
}
