//go:build pkcs11

package pkcs11

import (
	"errors"
	"fmt"
	"sync"

	"github.com/miekg/pkcs11"
)

// maxSessions limits the concurrent signatures of a token. Tokens have few
// sessions, and hardware is not faster with more.
const maxSessions = 8

// connection is a login at a token. A session makes one signature at a time, so
// there are several. It is safe for concurrent use, except for close.
type connection struct {
	module *pkcs11.Ctx
	uri    *URI
	pin    *pin
	slot   uint
	login  pkcs11.SessionHandle // a login lasts as long as some session does
	places chan struct{}        // one for each session that may be in use

	mu      sync.Mutex // guards the fields below
	idle    []pkcs11.SessionHandle
	objects map[*key]object
}

// object is a private key as seen through a connection.
type object struct {
	handle pkcs11.ObjectHandle
	// always means that the key requires the PIN for each signature, as the
	// signature keys of smart cards do (CKA_ALWAYS_AUTHENTICATE).
	always bool
}

func newConnection(module *pkcs11.Ctx, uri *URI, pin *pin, slot slot) (*connection, error) {
	session, err := module.OpenSession(slot.id, pkcs11.CKF_SERIAL_SESSION)
	if err != nil {
		return nil, fmt.Errorf("opening a session: %w", err)
	}
	if err := pin.loginUser(module, session, slot.token.Flags); err != nil {
		return nil, errors.Join(err, module.CloseSession(session))
	}
	return &connection{
		module: module, uri: uri, pin: pin, slot: slot.id, login: session,
		places: make(chan struct{}, sessionsOf(slot.token.MaxSessionCount)), objects: map[*key]object{},
	}, nil
}

// sessionsOf returns how many of a token's sessions may sign, including the
// session of the login.
func sessionsOf(most uint) uint {
	if most == pkcs11.CK_EFFECTIVELY_INFINITE || most > maxSessions {
		return maxSessions
	}
	return max(most, 2) - 1
}

// close releases the sessions. The caller must not use the connection any more.
func (c *connection) close() error {
	var errs []error
	for _, session := range append(c.idle, c.login) {
		errs = append(errs, c.module.CloseSession(session))
	}
	c.idle = nil
	return errors.Join(errs...)
}

// session calls f with a session that no other call uses.
func (c *connection) session(f func(pkcs11.SessionHandle) error) error {
	c.places <- struct{}{}
	defer func() { <-c.places }()
	session, err := c.take()
	if err != nil {
		return err
	}
	if err := f(session); err != nil {
		_ = c.module.CloseSession(session) // an operation may be unfinished in it; f's error is the relevant one
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, session)
	return nil
}

func (c *connection) take() (pkcs11.SessionHandle, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := len(c.idle) - 1; last >= 0 {
		session := c.idle[last]
		c.idle = c.idle[:last]
		return session, nil
	}
	session, err := c.module.OpenSession(c.slot, pkcs11.CKF_SERIAL_SESSION)
	if err != nil {
		return 0, fmt.Errorf("opening a session: %w", err)
	}
	return session, nil
}

// sign signs the input of an object's mechanism with the object.
func (c *connection) sign(o object, mechanism uint, input []byte) ([]byte, error) {
	var raw []byte
	err := c.session(func(s pkcs11.SessionHandle) error {
		if err := c.module.SignInit(s, []*pkcs11.Mechanism{pkcs11.NewMechanism(mechanism, nil)}, o.handle); err != nil {
			return err
		}
		if o.always {
			if err := c.pin.loginOnce(c.module, s); err != nil {
				return err
			}
		}
		var err error
		raw, err = c.module.Sign(s, input)
		return err
	})
	return raw, err
}

// object finds a key on the token, only once for each connection.
func (c *connection) object(k *key) (object, error) {
	c.mu.Lock()
	known, ok := c.objects[k]
	c.mu.Unlock()
	if ok {
		return known, nil
	}
	found, err := c.find(k)
	if err != nil {
		return object{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects[k] = found
	return found, nil
}
