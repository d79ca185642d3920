//go:build pkcs11

package pkcs11

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/miekg/pkcs11"
)

// Token is the token of a URI. It is safe for concurrent use.
//
// A token that is lost and comes back, with a network, a cable or its service,
// is found again: an operation that fails for that reason is retried once,
// after all lookups are repeated.
type Token struct {
	uri    *URI
	module *pkcs11.Ctx
	pin    *pin

	// mu guards the fields below. It is held for reading while a connection is
	// used, so that a connection is not replaced during a signature.
	mu         sync.RWMutex
	connection *connection // nil: not connected
	closed     bool
}

// Open loads the token's module and logs in. The module stays loaded until the
// process ends: its state belongs to the whole process, and other tokens may
// use it.
func Open(uri string) (*Token, error) {
	parsed, err := Parse(uri)
	if err != nil {
		return nil, err
	}
	module, err := load(parsed.query["module-path"])
	if err != nil {
		return nil, err
	}
	t := &Token{uri: parsed, module: module, pin: &pin{uri: parsed}}
	return t, t.reconnect(nil)
}

func load(path string) (*pkcs11.Ctx, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("loading the PKCS#11 module: %w", err)
	}
	module := pkcs11.New(path)
	if module == nil {
		return nil, fmt.Errorf("loading the PKCS#11 module: %s is not a module, or is for another machine or C library", path)
	}
	return module, nil
}

// Close releases the token's sessions. Its keys cannot sign any more.
func (t *Token) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.connection == nil {
		return nil
	}
	err := t.connection.close()
	t.connection = nil
	return err
}

// Find returns the private key of the URI that matches a public key, after
// verifying that by a signature. Several keys may have the label or the
// identifier of the URI, so that one can succeed another.
func (t *Token) Find(_ context.Context, public crypto.PublicKey) (crypto.Signer, error) {
	kind, err := kindOf(public)
	if err != nil {
		return nil, err
	}
	k := &key{token: t, public: public, kind: kind}
	err = t.with(func(c *connection) error {
		_, err := c.object(k)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("looking for the key %s: %w", t.uri, err)
	}
	return k, nil
}

// with calls f with a connection, and a second time with a new one if the first
// proves to be lost.
func (t *Token) with(f func(*connection) error) error {
	used, err := t.try(f)
	if !lost(err) {
		return err
	}
	if again := t.reconnect(used); again != nil {
		return again
	}
	_, err = t.try(f)
	return err
}

func (t *Token) try(f func(*connection) error) (*connection, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.connection == nil {
		return nil, errDisconnected
	}
	return t.connection, f(t.connection)
}

// reconnect replaces a lost connection, unless another goroutine has done so.
func (t *Token) reconnect(broken *connection) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return errors.New("the token has been closed")
	}
	if t.connection != broken {
		return nil
	}
	t.connection = nil
	connection, err := t.connect(broken)
	if err != nil {
		return fmt.Errorf("connecting to the token of %s: %w", t.uri, err)
	}
	t.connection = connection
	return nil
}

func (t *Token) connect(broken *connection) (*connection, error) {
	switch err := t.module.Initialize(); {
	case errors.Is(err, pkcs11.Error(pkcs11.CKR_CRYPTOKI_ALREADY_INITIALIZED)):
		if broken != nil {
			_ = broken.close() // releases its remaining resources
		}
	case err != nil:
		return nil, fmt.Errorf("initializing the PKCS#11 module: %w", err)
	}
	slot, err := findSlot(t.module, t.uri)
	if err != nil {
		return nil, err
	}
	return newConnection(t.module, t.uri, t.pin, slot)
}

// errDisconnected: the last attempt to connect failed.
var errDisconnected = errors.New("not connected to the token")

// lost reports whether a new connection may fix an error.
func lost(err error) bool {
	var code pkcs11.Error
	return errors.Is(err, errDisconnected) || errors.Is(err, errNoKey) || errors.As(err, &code) && slices.Contains(losses, code)
}

// losses are the errors that modules return when a token or its service was
// unavailable. The last four can have any cause: one more attempt does no harm.
var losses = []pkcs11.Error{
	pkcs11.CKR_SESSION_HANDLE_INVALID, pkcs11.CKR_SESSION_CLOSED, pkcs11.CKR_USER_NOT_LOGGED_IN,
	pkcs11.CKR_OBJECT_HANDLE_INVALID, pkcs11.CKR_KEY_HANDLE_INVALID, pkcs11.CKR_SLOT_ID_INVALID,
	pkcs11.CKR_DEVICE_ERROR, pkcs11.CKR_DEVICE_REMOVED, pkcs11.CKR_TOKEN_NOT_PRESENT, pkcs11.CKR_TOKEN_NOT_RECOGNIZED,
	pkcs11.CKR_CRYPTOKI_NOT_INITIALIZED,
	pkcs11.CKR_OPERATION_ACTIVE, pkcs11.CKR_OPERATION_NOT_INITIALIZED, pkcs11.CKR_GENERAL_ERROR, pkcs11.CKR_FUNCTION_FAILED,
}
