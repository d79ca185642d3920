package restcall

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
	"github.com/certplane/certplane/internal/process/httpsclient"
)

const (
	// maxMessage is how much of a provider's text errors quote, in bytes.
	maxMessage = 384
	// maxCode is the maximum size of a provider's code in errors, in bytes.
	maxCode = 64
	// minSecret is the size of the shortest secret that is hidden, in bytes.
	// Hiding single letters of a text would reveal which they are.
	minSecret = 5
	// maxRetryAfter is the longest delay that a provider can request.
	maxRetryAfter = time.Hour
)

// StatusError is an answer with a status other than 2xx. Its text has no
// credentials and nothing that differs from call to call, such as the ID of the
// request.
type StatusError struct {
	Status  int
	Code    string
	Message string
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("HTTP status %d %s", e.Status, http.StatusText(e.Status))
	for _, part := range []string{e.Code, e.Message} {
		if part != "" {
			text += ": " + part
		}
	}
	return text
}

// HasStatus reports whether an error is an answer with one of these statuses.
func HasStatus(err error, statuses ...int) bool {
	var refused *StatusError
	if !errors.As(err, &refused) {
		return false
	}
	for _, status := range statuses {
		if refused.Status == status {
			return true
		}
	}
	return false
}

// HasCode reports whether an error is an answer with this code.
func HasCode(err error, code string) bool {
	var refused *StatusError
	return errors.As(err, &refused) && refused.Code == code
}

func (c *Client) refused(response *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorAnswer)) // what arrived may explain enough
	fault := Fault{}
	if c.config.Explain != nil {
		fault = c.config.Explain(response.StatusCode, body)
	}
	err := &StatusError{
		Status:  response.StatusCode,
		Code:    c.clean(fault.Code, maxCode),
		Message: c.clean(fault.Message, maxMessage),
	}
	if !fault.Temporary && !temporaryStatus(response.StatusCode) {
		return err
	}
	wait, _ := httpsclient.RetryAfter(response.Header, c.config.Now(), maxRetryAfter)
	return &provider.TemporaryError{Err: err, RetryAfter: wait}
}

func temporaryStatus(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status >= 500
}

// changing matches what differs from answer to answer: IDs of requests, times,
// and the local end of connections. Reasons of Challenges must be stable.
var changing = regexp.MustCompile(`(?i)[\s,;]*[(\["']*\b(?:x-ms-|x-amzn-?)?(?:client[ -]?)?(?:request|trace|correlation|ray)[ _-]?id\b["']?\s*[:=]\s*["']?[0-9a-z][0-9a-z/+=._-]*["']?[)\]]?` +
	`|[\s,;]*\btimestamp\s*:\s*\S+( \d\d:\d\d:\d\d\S*)?` +
	`|encoded authorization failure message:\s*\S+` +
	`|\b\d{8}T\d{6}Z\b` +
	`|\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?` +
	`|\S+:\d+->`)

// hiddenText replaces secrets in errors.
const hiddenText = "[hidden]"

// Clean makes a text of the provider fit for errors, without secrets.
func (c *Client) Clean(text string) string { return c.clean(text, maxMessage) }

// clean makes a text of a provider fit for errors: no secrets, nothing that
// changes, no line breaks or terminal escapes, and at most max bytes.
func (c *Client) clean(text string, max int) string {
	for _, secret := range c.hidden() {
		for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret)} {
			text = strings.ReplaceAll(text, form, hiddenText)
		}
	}
	return presentable(text, max)
}

// presentable makes a text from elsewhere fit for errors: nothing that changes from
// answer to answer, no line breaks or terminal escapes, and at most max bytes.
func presentable(text string, max int) string {
	if len(text) > maxErrorAnswer {
		text = text[:maxErrorAnswer]
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, ""))
	text = strings.Join(strings.Fields(changing.ReplaceAllString(text, "")), " ")
	if len(text) > max {
		text = strings.ToValidUTF8(text[:max], "")
	}
	return text
}

// CheckHeader reports whether a value can be sent in a header. Its error does
// not quote the value.
func CheckHeader(value string) error {
	for i := range len(value) {
		if b := value[i]; (b < ' ' && b != '\t') || b == 0x7f {
			return errors.New("it contains a control character, such as a newline at its end")
		}
	}
	return nil
}
