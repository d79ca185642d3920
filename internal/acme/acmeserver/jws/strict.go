package jws

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	kjson "sigs.k8s.io/json"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

// maxDepth is how deep objects and arrays may be nested, the outermost included.
const maxDepth = 16

// DecodePayload decodes the payload of a message, which must be one JSON object.
// The names of members are compared case-sensitively, those that into does not have
// are ignored. No object may have a member twice, at any depth: programs disagree
// about which one counts.
func DecodePayload(payload []byte, into any) *rfc8555.Problem {
	if err := checkObject(payload); err != nil {
		return malformed("the payload %v", err)
	}
	err := kjson.UnmarshalCaseSensitivePreserveInts(payload, into)
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrongType):
		return malformed("the payload has a %s at %s, which must be something else", rfc8555.Quote(wrongType.Value), rfc8555.Quote(wrongType.Field))
	case err != nil:
		return malformed("the payload cannot be read: it has a value of an unexpected form")
	}
	return nil
}

// DecodeBase64URL decodes base64url (RFC 7515 section 2) that is as every encoder
// writes it: without padding, line breaks and stray bits. If padded is set, the
// text may also have the padding that belongs to its length.
func DecodeBase64URL(text string, padded bool) ([]byte, error) {
	encoding := base64.RawURLEncoding
	if padded && strings.HasSuffix(text, "=") {
		encoding = base64.URLEncoding
	}
	data, err := encoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") { // which the library skips
		return nil, errors.New("is not base64url without padding")
	}
	return data, nil
}

// checkObject returns an error unless data is one strict JSON object.
func checkObject(data []byte) error {
	switch {
	case !utf8.Valid(data):
		return errors.New("is not UTF-8")
	case !json.Valid(data):
		return errors.New("is not one JSON object")
	case bytes.TrimLeft(data, " \t\r\n")[0] != '{':
		return errors.New("is not a JSON object")
	}
	return checkMembers(data)
}

// level is an object or an array that is open.
type level struct {
	isObject bool
	nameNext bool // the next text is the name of a member
	names    map[string]bool
}

// checkMembers returns an error if an object in valid JSON has a member twice, or if the
// values are nested too deep. It reads only brackets, commas and strings: a decoder would
// allocate for each of the tens of thousands of values in a hostile message.
func checkMembers(data []byte) error {
	var open []level
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			if len(open) == maxDepth {
				return fmt.Errorf("is nested deeper than %d levels", maxDepth)
			}
			isObject := data[i] == '{'
			open = append(open, level{isObject: isObject, nameNext: isObject})
		case '}', ']':
			open = open[:len(open)-1]
		case ',':
			top := &open[len(open)-1]
			top.nameNext = top.isObject
		case '"':
			text := quotedText(data[i:])
			if err := open[len(open)-1].text(text); err != nil {
				return err
			}
			i += len(text) - 1
		}
	}
	return nil
}

// quotedText returns the text at the beginning of valid JSON, with its quotes.
func quotedText(data []byte) []byte {
	for i := 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return data[:i+1]
		}
	}
	return data
}

// text takes note of a text in an object, which can be a name.
func (l *level) text(quoted []byte) error {
	if !l.nameNext {
		return nil
	}
	l.nameNext = false
	name := string(quoted[1 : len(quoted)-1])
	if bytes.IndexByte(quoted, '\\') >= 0 {
		if err := json.Unmarshal(quoted, &name); err != nil {
			return errors.New("has a name that cannot be read")
		}
	}
	if l.names[name] {
		return fmt.Errorf("has the member %s twice", rfc8555.Quote(name))
	}
	if l.names == nil {
		l.names = map[string]bool{}
	}
	l.names[name] = true
	return nil
}

// members are the members of an object. Names are case-sensitive, as in any map.
type members map[string]json.RawMessage

// readObject returns the members of one strict JSON object.
func readObject(data []byte) (members, error) {
	if err := checkObject(data); err != nil {
		return nil, err
	}
	m := members{}
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, errors.New("is not a JSON object")
	}
	return m, nil
}

// text returns a member that must be a string.
func (m members) text(name string) (string, error) {
	value, ok := m[name]
	if !ok {
		return "", fmt.Errorf("has no member %q", name)
	}
	var text string
	if value[0] != '"' || json.Unmarshal(value, &text) != nil {
		return "", fmt.Errorf("has a member %q that is not a string", name)
	}
	return text, nil
}

// octets returns a member that must be a string of base64url.
func (m members) octets(name string) ([]byte, error) {
	text, err := m.text(name)
	if err != nil {
		return nil, err
	}
	data, err := DecodeBase64URL(text, false)
	if err != nil {
		return nil, fmt.Errorf("has a member %q that %w", name, err)
	}
	return data, nil
}

// has returns the first of names that is among the members, "" if none is.
func (m members) has(names ...string) string {
	for _, name := range names {
		if _, ok := m[name]; ok {
			return name
		}
	}
	return ""
}

func malformed(format string, args ...any) *rfc8555.Problem {
	return rfc8555.NewProblem(http.StatusBadRequest, rfc8555.ProblemMalformed, format, args...)
}
