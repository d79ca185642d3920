package pkcs11

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Prefix is the prefix of the URI of a key on a token.
const Prefix = "pkcs11:"

// URI identifies a private key on a token and describes how to access it (RFC
// 7512). It is parsed and valid.
type URI struct {
	path  map[string]string // section 2.3: the token and the key
	query map[string]string // section 2.3: how to access them
}

// The attributes of section 2.3 that are supported. Others are refused:
// ignoring one could mean to sign with another key.
var (
	tokenAttributes = []string{"token", "manufacturer", "serial", "model", "slot-id", "slot-description", "slot-manufacturer"}
	keyAttributes   = []string{"object", "id", "type"}
	queryAttributes = []string{"module-path", "pin-source", "pin-value"}
)

// Parse parses a URI. No error shows any of its query, which can contain a PIN.
func Parse(uri string) (*URI, error) {
	if len(uri) < len(Prefix) || !strings.EqualFold(uri[:len(Prefix)], Prefix) {
		return nil, errors.New("does not begin with " + Prefix + " as it must")
	}
	path, query, _ := strings.Cut(uri[len(Prefix):], "?")
	u := &URI{}
	var err error
	if u.path, err = attributes(path, ";", append(tokenAttributes, keyAttributes...)); err != nil {
		return nil, fmt.Errorf("before the question mark: %w", err)
	}
	if u.query, err = attributes(query, "&", queryAttributes); err != nil {
		return nil, fmt.Errorf("after the question mark: %w", err)
	}
	return u, u.check()
}

// attributes parses name=value pairs. Its errors name only known attributes:
// other text may be a part of a PIN.
func attributes(text, separator string, known []string) (map[string]string, error) {
	read := map[string]string{}
	if text == "" {
		return read, nil
	}
	for i, pair := range strings.Split(text, separator) {
		name, value, _ := strings.Cut(pair, "=")
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("attribute %d is not one of %s", i+1, strings.Join(known, ", "))
		}
		if _, twice := read[name]; twice {
			return nil, fmt.Errorf("%s is listed twice", name)
		}
		decoded, err := url.PathUnescape(value)
		if err != nil || decoded == "" {
			return nil, fmt.Errorf("the value of %s is empty or not percent-encoded as it must be", name)
		}
		read[name] = decoded
	}
	return read, nil
}

func (u *URI) check() error {
	switch {
	case u.path["object"] == "" && u.path["id"] == "":
		return errors.New("names no key: add the key's label as object=LABEL or its identifier as id=%01")
	case u.path["type"] != "" && u.path["type"] != "private":
		return fmt.Errorf("type=%s: a CA signs with a private key, so leave type out or make it private", u.path["type"])
	case !filepath.IsAbs(u.query["module-path"]):
		return errors.New("names no module: add ?module-path= with the absolute path of the token's PKCS#11 library")
	case u.query["pin-source"] != "" && u.query["pin-value"] != "":
		return errors.New("has pin-source and pin-value: remove pin-value") // RFC 7512 section 2.4
	case u.query["pin-source"] != "" && u.pinFile() == "":
		return errors.New("pin-source must be file: and an absolute path")
	}
	return nil
}

// String returns the URI without its query, which can contain a PIN and does
// not help to distinguish keys.
func (u *URI) String() string {
	var path []string
	for _, name := range append(tokenAttributes, keyAttributes...) {
		if value, ok := u.path[name]; ok {
			path = append(path, name+"="+escape(name, value))
		}
	}
	return Prefix + strings.Join(path, ";")
}

// escape percent-encodes a value; identifiers are bytes, and every byte is
// encoded, as by other tools.
func escape(name, value string) string {
	if name != "id" {
		return url.PathEscape(value)
	}
	var encoded strings.Builder
	for _, b := range []byte(value) {
		encoded.WriteString("%" + hex.EncodeToString([]byte{b}))
	}
	return encoded.String()
}

// pinFile returns the path in pin-source, which may be a file URI (RFC 8089) or
// only a path; empty if it is neither.
func (u *URI) pinFile() string {
	source := strings.TrimPrefix(u.query["pin-source"], "file:")
	if after, ok := strings.CutPrefix(source, "//"); ok {
		source = after
	}
	if !filepath.IsAbs(source) {
		return ""
	}
	return source
}

// pin returns the PIN; empty if the URI has none. It is read again in each
// call, so that it can be changed.
func (u *URI) pin() (string, error) {
	file := u.pinFile()
	if file == "" {
		return u.query["pin-value"], nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("reading the PIN: %w", err)
	}
	pin := strings.TrimRight(string(data), "\r\n")
	if pin == "" {
		return "", fmt.Errorf("reading the PIN: %s is empty", file)
	}
	return pin, nil
}
