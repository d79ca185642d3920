package acme

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/certplane/certplane/internal/acme"
	"github.com/certplane/certplane/internal/acme/account"
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
	key, err := account.DecodeMAC(text)
	if err != nil {
		return nil, wait(ReasonRegisterFailed, failedToRegister+"failed to decode external account binding key data: %v", err)
	}
	return &acme.ExternalAccount{KeyID: external.KeyID, Key: key}, nil
}
