//go:build pkcs11

package pkcs11

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	"github.com/miekg/pkcs11"
)

// pin logs in. It does not try a PIN again that the token has refused, and it
// leaves the last attempt before the token locks itself to a person: tokens
// count wrong PINs, a signer never gives up, and the key would be lost.
type pin struct {
	uri *URI

	mu      sync.Mutex // guards refused; held during a login
	refused [sha256.Size]byte
}

// login calls its argument login with the PIN. flags are the token's.
func (p *pin) login(flags uint, login func(pin string) error) error {
	secret, err := p.uri.pin()
	if err != nil {
		return err
	}
	if secret == "" {
		return needsNoPIN(flags)
	}
	if err := mayTry(flags); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := sha256.Sum256([]byte(secret))
	if sum == p.refused {
		return errors.New("the token has refused this PIN, which is not tried again because the token could lock itself: correct the PIN in pin-source")
	}
	err = login(secret)
	if errors.Is(err, pkcs11.Error(pkcs11.CKR_PIN_INCORRECT)) {
		p.refused = sum
	}
	return err
}

func needsNoPIN(flags uint) error {
	if flags&pkcs11.CKF_LOGIN_REQUIRED != 0 {
		return errors.New("the token wants a PIN: write it into a file and add pin-source=file:PATH to the URI")
	}
	return nil
}

func mayTry(flags uint) error {
	switch {
	case flags&pkcs11.CKF_USER_PIN_LOCKED != 0:
		return errors.New("the token has locked its PIN after too many wrong ones: unlock it with its vendor's tools")
	case flags&pkcs11.CKF_USER_PIN_FINAL_TRY != 0:
		return errors.New("the token locks itself after the next wrong PIN, so none is tried:  log in once with its vendor's tools")
	}
	return nil
}

// loginUser is the login that makes private keys visible. It applies to the
// whole process, so an existing login by other code is success.
func (p *pin) loginUser(module *pkcs11.Ctx, session pkcs11.SessionHandle, flags uint) error {
	err := p.login(flags, func(pin string) error { return module.Login(session, pkcs11.CKU_USER, pin) })
	if err != nil && !errors.Is(err, pkcs11.Error(pkcs11.CKR_USER_ALREADY_LOGGED_IN)) {
		return fmt.Errorf("logging in: %w", err)
	}
	return nil
}

// loginOnce is the login for one signature.
func (p *pin) loginOnce(module *pkcs11.Ctx, session pkcs11.SessionHandle) error {
	err := p.login(0, func(pin string) error { return module.Login(session, pkcs11.CKU_CONTEXT_SPECIFIC, pin) })
	if err != nil {
		return fmt.Errorf("logging in for one signature: %w", err)
	}
	return nil
}
