package keystore

import (
	"context"

	"github.com/certplane/certplane/internal/keystore/kms"
	"github.com/certplane/certplane/internal/keystore/pkcs11"
)

// scheme is a kind of URI for keys in settings.
type scheme struct {
	prefix   string
	validate func(uri string) error
	open     func(ctx context.Context, uri string) (vault, error)
}

// schemes returns the supported places for keys other than files.
func schemes() []scheme {
	all := []scheme{{prefix: pkcs11.Prefix, validate: pkcs11.Validate, open: openPKCS11}}
	for _, service := range kms.Services {
		all = append(all, scheme{prefix: service.Prefix, validate: service.Validate, open: openKMS(service)})
	}
	return all
}

func openPKCS11(_ context.Context, uri string) (vault, error) {
	token, err := pkcs11.Open(uri)
	if err != nil {
		return nil, err // and not a non-nil vault with a nil token
	}
	return token, nil
}

func openKMS(service kms.Service) func(context.Context, string) (vault, error) {
	return func(ctx context.Context, uri string) (vault, error) {
		key, err := service.Open(ctx, uri)
		if err != nil {
			return nil, err
		}
		return key, nil
	}
}
