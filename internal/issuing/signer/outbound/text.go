package outbound

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/certplane/certplane/internal/process/httpsclient"
)

const (
	// MaxText is the maximum length of a shown error, in bytes.
	MaxText = 1024
	// MaxLogged is the maximum length of a logged response, in bytes.
	MaxLogged = 8192
	// MaxBody is the maximum length of a response that is read, in bytes.
	MaxBody = 1 << 20
	// maxPause is the longest pause that a server can request.
	maxPause = 5 * time.Minute
)

// Credential is a secret value that does not appear in logs and errors.
type Credential string

// Format implements fmt.Formatter. No verb prints the value.
func (Credential) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// MarshalText implements encoding.TextMarshaler, which loggers use.
func (Credential) MarshalText() ([]byte, error) { return []byte(hidden), nil }

const hidden = "(not shown)"

// Hide replaces sent credentials in a text of a server, in all forms in which the server
// can have received them.
func Hide(text string, sent []Credential) string {
	for _, one := range sent {
		value := string(one)
		if len(value) < 4 {
			continue
		}
		quoted, _ := json.Marshal(value) // of a string cannot fail
		for _, form := range []string{value, strings.Trim(string(quoted), `"`), base64.StdEncoding.EncodeToString([]byte(value))} {
			text = strings.ReplaceAll(text, form, hidden)
		}
	}
	return text
}

// Cut returns at most limit bytes of a text, without splitting a character.
func Cut(text string, limit int) string {
	const mark = "..."
	text = strings.ToValidUTF8(text, "")
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len(mark)], "") + mark
}

// RetryAfter returns the pause that a server requests: at most five minutes, 0 if it
// requests none.
func RetryAfter(header http.Header, now time.Time) time.Duration {
	wait, _ := httpsclient.RetryAfter(header, now, maxPause)
	return wait
}
