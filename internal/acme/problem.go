package acme

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/process/httpsclient"
)

// Limits of a problem, which is stored in objects and shown in Events.
const (
	maxDetail      = 2000
	maxSubproblems = 100
	maxSubDetail   = 500
)

// problemIn returns the problem that an error wraps.
func problemIn(err error) (*rfc8555.Problem, bool) {
	problem := new(rfc8555.Problem)
	ok := errors.As(err, &problem)
	return problem, ok
}

// problemOf returns the problem in an answer that is not a success.
func problemOf(resp *http.Response, body []byte, now time.Time) *rfc8555.Problem {
	p := &rfc8555.Problem{Detail: unexpected(resp, body)}
	var wire rfc8555.ProblemDocument
	// An answer over http can come from any program at an address that a tenant names.
	isForeign := resp.Request.URL.Scheme != "https"
	if json.Unmarshal(body, &wire) == nil && (mediaType(resp.Header) == rfc8555.MediaTypeProblem || strings.HasPrefix(wire.Type, rfc8555.Namespace)) {
		p = readProblem(&wire)
		if isForeign {
			p.Detail, p.Instance, p.Subproblems = "the server gives details that are not shown: they were not sent by https", "", nil
			if !problemType.MatchString(p.Type) {
				p.Type = ""
			}
		}
	}
	p.Status = resp.StatusCode
	p.RetryAfter = retryAfter(resp.Header, now)
	if terms := links(resp.Header, "terms-of-service", resp.Request.URL); len(terms) > 0 {
		p.TermsOfService = terms[0]
	}
	return p
}

// unexpected describes an answer that is not from an ACME server. It does not quote the
// answer, which can come from any address that a tenant names.
func unexpected(resp *http.Response, body []byte) string {
	if to := resp.Header.Get("Location"); to != "" && resp.StatusCode/100 == 3 {
		return "the server redirects, which is not allowed for signed requests"
	}
	return fmt.Sprintf("the answer is not a problem document of an ACME server: %s of %d bytes", mediaType(resp.Header), len(body))
}

// usualMedia are the media types that are shown. Others are not shown, because the server
// can choose their text.
var usualMedia = []string{rfc8555.MediaTypeProblem, "application/json", "application/pem-certificate-chain", "text/html", "text/plain"}

// problemType matches the types of problems that are accepted without https.
var problemType = regexp.MustCompile(`^` + regexp.QuoteMeta(rfc8555.Namespace) + `[A-Za-z]{1,30}$`)

func mediaType(h http.Header) string {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	switch {
	case err != nil || media == "":
		return "data without a media type"
	case slices.Contains(usualMedia, media):
		return media
	}
	return "data of another media type"
}

// readProblem returns a problem within the limits above; nil if wire is nil.
func readProblem(wire *rfc8555.ProblemDocument) *rfc8555.Problem {
	if wire == nil {
		return nil
	}
	detail := wire.Detail
	if detail == "" {
		detail = wire.Title
	}
	p := &rfc8555.Problem{Type: rfc8555.ShortLine(wire.Type, 200), Detail: rfc8555.ShortLine(detail, maxDetail), Instance: rfc8555.ShortLine(wire.Instance, maxURL)}
	if wire.Status >= 100 && wire.Status <= 599 {
		p.Status = wire.Status
	}
	for i, sub := range wire.Subproblems {
		if i == maxSubproblems {
			break
		}
		p.Subproblems = append(p.Subproblems, rfc8555.Subproblem{
			Type: rfc8555.ShortLine(sub.Type, 200), Detail: rfc8555.ShortLine(sub.Detail, maxSubDetail), Identifier: readIdentifier(sub.Identifier),
		})
	}
	return p
}

// retryAfter returns when the server wants to be asked again; zero if it does
// not say.
func retryAfter(h http.Header, now time.Time) time.Time {
	wait, ok := httpsclient.RetryAfter(h, now, maxWait)
	if !ok {
		return time.Time{}
	}
	return now.Add(wait)
}

// maxLinks is how many links of an answer are read.
const maxLinks = 32

// links returns the URLs of the header Link (RFC 8288) that have a relation.
func links(h http.Header, relation string, base *url.URL) []string {
	var found []string
	for _, line := range h.Values("Link") {
		for _, link := range strings.Split(line, "<")[1:] {
			target, parameters, ok := strings.Cut(link, ">")
			if !ok || !hasRelation(parameters, relation) || len(found) == maxLinks {
				continue
			}
			if u, err := base.Parse(target); err == nil && len(u.String()) <= maxURL {
				found = append(found, u.String())
			}
		}
	}
	return found
}

func hasRelation(parameters, relation string) bool {
	for _, parameter := range strings.Split(parameters, ";") {
		name, value, _ := strings.Cut(parameter, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "rel") {
			continue
		}
		for _, one := range strings.Fields(strings.Trim(strings.TrimRight(strings.TrimSpace(value), ","), `"`)) {
			if strings.EqualFold(one, relation) {
				return true
			}
		}
	}
	return false
}
