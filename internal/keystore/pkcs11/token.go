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
// A token that goes away and comes back, with a network, a cable or its
// service, is found again: what fails for that reason is tried once more, with
// everything looked up again.
type Token struct {
	uri    *URI
	module *pkcs11.Ctx
	pin    *pin

	// mu guards the fields below. It is held for reading while a connection
	// is used, so that none is replaced under a signature that is being made.
	mu         sync.RWMutex
	connection *connection // nil: none at present
	closed     bool
}

// Open loads the token's module and logs in. The module stays loaded until
// the process ends: its state is the process's, and other tokens may use it.
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
		return nil, fmt.Errorf("loading the PKCS#11 module: %s is none, or one for another machine or C library", path)
	}
	return module, nil
}

// Close gives the token's sessions back. Its keys cannot sign any more.
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

// Find returns the private key of the URI that belongs to a public key, once
// it has proved that by a signature. Several keys may have the label or the
// identifier of the URI: so one can follow another.
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

// with calls f with a connection, and once more with another one if the first
// turns out to be lost.
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

// reconnect replaces a connection that is lost, unless somebody else has.
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
			_ = broken.close() // what is left of it
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

// errDisconnected: the last try to connect has failed.
var errDisconnected = errors.New("not connected to the token")

// lost reports whether another connection may help.
func lost(err error) bool {
	var code pkcs11.Error
	return errors.Is(err, errDisconnected) || errors.Is(err, errNoKey) || errors.As(err, &code) && slices.Contains(losses, code)
}

// losses are what modules answer when a token or its service has been away.
// The last four can mean anything: one more try does no harm.
var losses = []pkcs11.Error{
	pkcs11.CKR_SESSION_HANDLE_INVALID, pkcs11.CKR_SESSION_CLOSED, pkcs11.CKR_USER_NOT_LOGGED_IN,
	pkcs11.CKR_OBJECT_HANDLE_INVALID, pkcs11.CKR_KEY_HANDLE_INVALID, pkcs11.CKR_SLOT_ID_INVALID,
	pkcs11.CKR_DEVICE_ERROR, pkcs11.CKR_DEVICE_REMOVED, pkcs11.CKR_TOKEN_NOT_PRESENT, pkcs11.CKR_TOKEN_NOT_RECOGNIZED,
	pkcs11.CKR_CRYPTOKI_NOT_INITIALIZED,
	pkcs11.CKR_OPERATION_ACTIVE, pkcs11.CKR_OPERATION_NOT_INITIALIZED, pkcs11.CKR_GENERAL_ERROR, pkcs11.CKR_FUNCTION_FAILED,
}
