package jws

import (
	"encoding/json"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

// ReadKeyChange returns the new key of an account (RFC 8555 section 7.3.5): outer was
// signed with the old one, its payload is a message that the new one has signed.
// Whether another account has the new key is not checked.
func ReadKeyChange(outer *Message, options Options) (*Key, *rfc8555.Problem) {
	unverified, problem := Parse(outer.Payload, NewKey, options)
	if problem != nil {
		return nil, inside("the inner message", problem)
	}
	inner, problem := unverified.Verify(nil)
	if problem != nil {
		return nil, inside("the inner message", problem)
	}
	if inner.URL != outer.URL {
		return nil, malformed("the inner message: its url differs from the url of the outer message")
	}
	var change struct {
		Account string          `json:"account"`
		OldKey  json.RawMessage `json:"oldKey"`
	}
	if problem := inner.Decode(&change); problem != nil {
		return nil, inside("the inner message", problem)
	}
	if change.Account != outer.KID {
		return nil, malformed("the inner message: account is not the account that has signed the outer message")
	}
	old, err := parseKey(change.OldKey)
	if err != nil {
		return nil, malformed("the inner message: the old key %v", err)
	}
	switch {
	case !old.Equal(outer.Key):
		return nil, malformed("the inner message: oldKey is not the key of the account")
	case inner.Key.Equal(outer.Key):
		return nil, malformed("the inner message: the new key is the old one")
	}
	return inner.Key, nil
}
