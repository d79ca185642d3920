//go:build pkcs11

package pkcs11

import (
	"errors"
	"fmt"

	"github.com/miekg/pkcs11"
)

// maxCandidates is more than the number of keys with one label in practice.
const maxCandidates = 100

// errNoKey: the key does not exist, or it is not visible because the login was
// lost.
var errNoKey = errors.New("no matching private key is visible (is the session logged in?)")

// find returns the object of the URI that proves to have the key k.
func (c *connection) find(k *key) (object, error) {
	candidates, err := c.candidates(k.kind)
	if err != nil {
		return object{}, err
	}
	if len(candidates) == 0 {
		return object{}, fmt.Errorf("%w (of the CA certificate's kind, %s)", errNoKey, k.kind.name)
	}
	var refusals []error
	for _, candidate := range candidates {
		err := k.prove(c, candidate)
		if err == nil {
			return candidate, nil
		}
		refusals = append(refusals, err)
		if lost(err) {
			break
		}
	}
	return object{}, fmt.Errorf("trying %d keys: %w", len(refusals), errors.Join(refusals...))
}

// candidates returns the private keys of one kind that the URI describes.
func (c *connection) candidates(k kind) ([]object, error) {
	template := []*pkcs11.Attribute{
		pkcs11.NewAttribute(pkcs11.CKA_CLASS, pkcs11.CKO_PRIVATE_KEY),
		pkcs11.NewAttribute(pkcs11.CKA_KEY_TYPE, k.keyType),
	}
	if label, ok := c.uri.path["object"]; ok {
		template = append(template, pkcs11.NewAttribute(pkcs11.CKA_LABEL, label))
	}
	if id, ok := c.uri.path["id"]; ok {
		template = append(template, pkcs11.NewAttribute(pkcs11.CKA_ID, []byte(id)))
	}
	var found []object
	err := c.session(func(s pkcs11.SessionHandle) error {
		handles, err := list(c.module, s, template)
		for _, handle := range handles {
			found = append(found, object{handle: handle, always: alwaysAuthenticates(c.module, s, handle)})
		}
		return err
	})
	return found, err
}

func list(module *pkcs11.Ctx, s pkcs11.SessionHandle, template []*pkcs11.Attribute) ([]pkcs11.ObjectHandle, error) {
	if err := module.FindObjectsInit(s, template); err != nil {
		return nil, fmt.Errorf("listing keys: %w", err)
	}
	handles, _, err := module.FindObjects(s, maxCandidates)
	if err != nil {
		return nil, fmt.Errorf("listing keys: %w", err)
	}
	if err := module.FindObjectsFinal(s); err != nil {
		return nil, fmt.Errorf("listing keys: %w", err)
	}
	return handles, nil
}

// alwaysAuthenticates returns false if a token does not support the attribute, which is
// newer than PKCS#11 2.11.
func alwaysAuthenticates(module *pkcs11.Ctx, s pkcs11.SessionHandle, handle pkcs11.ObjectHandle) bool {
	values, err := module.GetAttributeValue(s, handle, []*pkcs11.Attribute{pkcs11.NewAttribute(pkcs11.CKA_ALWAYS_AUTHENTICATE, nil)})
	return err == nil && len(values) == 1 && len(values[0].Value) == 1 && values[0].Value[0] != 0
}
