// Package spiffe validates SPIFFE IDs.
//
// It follows the SPIFFE ID specification and, for certificates, the X.509-SVID
// specification, both of spiffe.io.
package spiffe

import (
	"errors"
	"fmt"
	"strings"
)

// Scheme is the URI scheme of every SPIFFE ID.
const Scheme = "spiffe"

// The specification's limits, in bytes (SPIFFE ID, section 2.3).
const (
	maxTrustDomain = 255
	maxID          = 2048
)

// CheckTrustDomain returns an error if name is not a valid trust domain: it
// must consist of lower-case letters, digits, dots, hyphens and underscores
// (SPIFFE ID, section 2.1).
func CheckTrustDomain(name string) error {
	switch {
	case name == "":
		return errors.New("a trust domain must not be empty")
	case len(name) > maxTrustDomain:
		return fmt.Errorf("a trust domain has at most %d characters", maxTrustDomain)
	case strings.ContainsFunc(name, func(c rune) bool { return !(lower(c) || c == '.' || c == '-' || c == '_') }):
		return fmt.Errorf("the trust domain %q has other characters than lower-case letters, digits, dots, hyphens and underscores", name)
	}
	return nil
}

// CheckID returns an error if id is not a valid ID of a workload: it must be
// spiffe://<trust domain>/<path>, and no segment of the path may be empty, "."
// or ".." (SPIFFE ID, section 2.2; X.509-SVID, section 4.1).
func CheckID(id string) error {
	rest, ok := strings.CutPrefix(id, Scheme+"://")
	if !ok {
		return fmt.Errorf("%q does not begin with spiffe://", id)
	}
	if len(id) > maxID {
		return fmt.Errorf("a SPIFFE ID has at most %d characters", maxID)
	}
	domain, path, hasPath := strings.Cut(rest, "/")
	if err := CheckTrustDomain(domain); err != nil {
		return err
	}
	if !hasPath {
		return fmt.Errorf("%q names a trust domain and no workload in it", id)
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return fmt.Errorf("the path of %q has an empty or relative segment", id)
		}
		if strings.ContainsFunc(segment, func(c rune) bool {
			return !(lower(c) || c >= 'A' && c <= 'Z' || c == '.' || c == '-' || c == '_')
		}) {
			return fmt.Errorf("the path of %q has other characters than letters, digits, dots, hyphens and underscores", id)
		}
	}
	return nil
}

// lower reports whether c is a lower-case letter or a digit.
func lower(c rune) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }
