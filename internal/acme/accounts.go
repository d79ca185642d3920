package acme

import (
	"context"
	"crypto"
	"errors"
	"fmt"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

// Registration is the content of a new account.
type Registration struct {
	// Contact are URLs such as mailto:admin@example.com.
	Contact []string
	// External, if not nil, is the account outside of ACME that the new one
	// belongs to.
	External *ExternalAccount
}

// ExternalAccount is the identifier and the MAC key of an account outside of
// ACME (RFC 8555 section 7.3.4).
type ExternalAccount struct {
	KeyID string
	Key   []byte
}

type wireAccount struct {
	Status  string   `json:"status"`
	Contact []string `json:"contact"`
}

type newAccount struct {
	Contact              []string `json:"contact,omitempty"`
	TermsOfServiceAgreed bool     `json:"termsOfServiceAgreed,omitempty"`
	OnlyReturnExisting   bool     `json:"onlyReturnExisting,omitempty"`
	External             *jws     `json:"externalAccountBinding,omitempty"`
}

// FindAccount returns the account that the server has for the key, which the client uses
// from then on. If the account does not exist, the error is a *rfc8555.Problem of type
// accountDoesNotExist.
func (c *Client) FindAccount(ctx context.Context) (rfc8555.Account, error) {
	return c.newAccount(ctx, actionFindAccount, limitRequest, func(*jwsSigner, string) (newAccount, error) {
		return newAccount{OnlyReturnExisting: true}, nil
	})
}

// Register creates an account, which the client uses from then on. If the server
// has one for the key, it returns that one, unchanged. It agrees to the terms of
// service.
func (c *Client) Register(ctx context.Context, r Registration) (rfc8555.Account, error) {
	return c.newAccount(ctx, actionRegister, limitNewAccount, func(signer *jwsSigner, url string) (newAccount, error) {
		a := newAccount{Contact: r.Contact, TermsOfServiceAgreed: true}
		if r.External == nil {
			return a, nil
		}
		bound, err := signer.bindExternal(*r.External, url)
		a.External = &bound
		return a, err
	})
}

func (c *Client) newAccount(ctx context.Context, a action, class limitClass, payload func(*jwsSigner, string) (newAccount, error)) (rfc8555.Account, error) {
	d, err := c.directory(ctx)
	if err != nil {
		return rfc8555.Account{}, err
	}
	signer, _, _ := c.identity()
	body, err := payload(signer, d.NewAccount)
	if err != nil {
		return rfc8555.Account{}, err
	}
	got, err := c.post(ctx, message{action: a, class: class, url: d.NewAccount, payload: body, byKey: true})
	if err != nil {
		return rfc8555.Account{}, err
	}
	url, err := c.location(got)
	if err != nil {
		return rfc8555.Account{}, err
	}
	account, err := accountOf(got, url)
	if err == nil {
		c.setAccount(url)
	}
	return account, err
}

// location returns the URL of a new object.
func (c *Client) location(got answer) (string, error) {
	text := got.header.Get("Location")
	if text == "" {
		return "", fmt.Errorf("the answer of %s has no Location", got.url)
	}
	u, err := resolve(got.url, text)
	if err != nil {
		return "", fmt.Errorf("the answer of %s has a Location that is not a URL", got.url)
	}
	return u, c.server.checkURL(u)
}

const (
	maxContacts = 20
	maxContact  = 320 + len("mailto:")
)

func accountOf(got answer, url string) (rfc8555.Account, error) {
	var wire wireAccount
	if err := got.read(&wire); err != nil {
		return rfc8555.Account{}, err
	}
	account := rfc8555.Account{URL: url, Status: rfc8555.ShortLine(wire.Status, maxState)}
	for _, contact := range wire.Contact {
		if len(account.Contact) < maxContacts {
			account.Contact = append(account.Contact, rfc8555.ShortLine(contact, maxContact))
		}
	}
	return account, nil
}

// SetContact replaces the contacts of the account; an empty list removes them.
func (c *Client) SetContact(ctx context.Context, contact []string) (rfc8555.Account, error) {
	if contact == nil {
		contact = []string{}
	}
	return c.updateAccount(ctx, actionUpdateAccount, map[string]any{"contact": contact})
}

func (c *Client) updateAccount(ctx context.Context, a action, payload any) (rfc8555.Account, error) {
	url := c.Account()
	got, err := c.post(ctx, message{action: a, url: url, payload: payload})
	if err != nil {
		return rfc8555.Account{}, err
	}
	return accountOf(got, url)
}

// ErrNoKeyChange means that a server cannot replace the keys of accounts.
var ErrNoKeyChange = errors.New("the ACME server cannot replace the keys of accounts: its directory has no keyChange")

// RollOver replaces the key of the account (RFC 8555 section 7.3.5). The client uses the
// new key from then on, and so do other clients with the old key for successionFor.
// Challenges that wait for their validation become invalid: the server expects answers
// with the new key. If the answer is lost, FindAccount of a client with each key shows
// which key the server has.
func (c *Client) RollOver(ctx context.Context, newKey crypto.Signer) error {
	next, err := newJWSSigner(newKey)
	if err != nil {
		return err
	}
	d, err := c.directory(ctx)
	if err != nil {
		return err
	}
	if d.KeyChange == "" {
		return ErrNoKeyChange
	}
	m := message{action: actionUnnamed, class: limitRequest, url: d.KeyChange}
	old, account, limits := c.identity()
	release, err := limits.enterAlone(ctx, c.pool, m)
	if err != nil {
		return err
	}
	defer release()
	old = limits.current(old, account, c.pool.Clock.Now())
	if m.payload, err = next.sign(map[string]any{"account": account, "oldKey": old.public}, d.KeyChange, "", ""); err != nil {
		return err
	}
	if _, err := c.send(ctx, limits, m); err != nil {
		return err
	}
	c.setKey(next)
	return nil
}
