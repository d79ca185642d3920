package keystore

import (
	"errors"
)

// schemes are the places, besides files, that keys can be in.
var schemes = []scheme{
	{prefix: "pkcs11:", validate: refusePKCS11, open: nil},
}

func refusePKCS11(string) error {
	return errors.New("this certplane was built without PKCS#11: build one with CGO_ENABLED=1 go build -tags pkcs11 ./cmd/certplane")
}
