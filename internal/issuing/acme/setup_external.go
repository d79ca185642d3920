package acme

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/certplane/certplane/internal/acme"
	"github.com/certplane/certplane/internal/issuing"
)

// externalAccount returns the external account that a new account is bound to;
// nil if the issuer has none.
func (p *pass) externalAccount(ctx context.Context) (*acme.ExternalAccount, *issuing.Ready) {
	external := p.spec.ExternalAccountBinding
	if external == nil {
		return nil, nil
	}
	secret := &corev1.Secret{}
	err := p.Client.Get(ctx, p.secretNamed(external.Key.Name), secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, wait(ReasonRegisterFailed, failedToRegister+"%v", err)
	case err != nil:
		return nil, retry(ReasonRegisterFailed, failedToRegister+"failed to get External Account Binding key from secret: %v", err)
	}
	text := strings.TrimSpace(string(secret.Data[external.Key.Key]))
	if text == "" {
		return nil, wait(ReasonRegisterFailed, failedToRegister+"failed to find external account binding key data in Secret %q at index %q", external.Key.Name, external.Key.Key)
	}
	key, err := decodeMAC(text)
	if err != nil {
		return nil, wait(ReasonRegisterFailed, failedToRegister+"failed to decode external account binding key data: %v", err)
	}
	return &acme.ExternalAccount{KeyID: external.KeyID, Key: key}, nil
}

// decodeMAC decodes a MAC key. CAs show them as base64url, and some as base64,
// with or without padding.
func decodeMAC(text string) ([]byte, error) {
	text = strings.NewReplacer("+", "-", "/", "_", "\n", "", "\r", "", " ", "").Replace(text)
	key, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		return nil, fmt.Errorf("%w", err) // has a position, not the key
	}
	return key, nil
}
