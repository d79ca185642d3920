package outbound

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/certplane/certplane/internal/httpsclient"
)

const (
	// MaxText limits what is shown of an error, in bytes.
	MaxText = 1024
	// MaxLogged limits what is logged of an answer, in bytes.
	MaxLogged = 8192
	// MaxBody is how much of an answer is read, in bytes.
	MaxBody = 1 << 20
	// maxPause is the longest pause that a server can request.
	maxPause = 5 * time.Minute
)

// Credential is a secret value that no log and no error shows.
type Credential string

// Format implements fmt.Formatter: no verb shows the value.
func (Credential) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// MarshalText implements encoding.TextMarshaler, which loggers use.
func (Credential) MarshalText() ([]byte, error) { return []byte(hidden), nil }

const hidden = "(not shown)"

// Hide replaces the credentials that were sent in a text of a server, in the
// forms in which the server can have received them.
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

// Cut returns at most limit bytes of a text, and no half characters.
func Cut(text string, limit int) string {
	const mark = "..."
	text = strings.ToValidUTF8(text, "")
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len(mark)], "") + mark
}

// RetryAfter returns how long a server wants to be left alone: at most five
// minutes, 0 if it does not say.
func RetryAfter(header http.Header, now time.Time) time.Duration {
	wait, _ := httpsclient.RetryAfter(header, now, maxPause)
	return wait
}
