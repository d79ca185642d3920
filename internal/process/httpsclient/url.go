package httpsclient

import (
	"errors"
	"fmt"
	"net/url"
)

// CheckURL returns an error for an address that is not that of an HTTPS server.
// It never quotes one that may contain a secret.
func CheckURL(address string) error {
	parsed, err := url.Parse(address)
	switch {
	case address == "":
		return errors.New("is missing")
	case err != nil:
		return errors.New("is not a URL")
	case parsed.User != nil:
		return errors.New("must not have a user or a password: use tokenFile")
	case parsed.RawQuery != "" || parsed.ForceQuery || parsed.Fragment != "":
		return errors.New("must not have a query or a fragment: use tokenFile for secrets")
	case parsed.Scheme != "https":
		return fmt.Errorf("%q must begin with https://", address)
	case parsed.Hostname() == "":
		return fmt.Errorf("%q has no host", address)
	}
	return nil
}
