package route53

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	signingAlgorithm = "AWS4-HMAC-SHA256"
	signingTime      = "20060102T150405Z"
	signingDate      = "20060102"
)

// credentials are a key of AWS.
type credentials struct {
	keyID  string
	secret string
	// session belongs to temporary keys; empty for others.
	session string
}

// scope is where a signature is valid.
type scope struct {
	region  string
	service string
}

// sign adds a signature of version 4 to a request.
func sign(request *http.Request, body []byte, c credentials, s scope, now time.Time) {
	now = now.UTC()
	request.Header.Set("X-Amz-Date", now.Format(signingTime))
	if c.session != "" {
		request.Header.Set("X-Amz-Security-Token", c.session)
	}
	headers := signedHeaders(request)
	names := strings.Join(slices.Sorted(maps.Keys(headers)), ";")
	where := strings.Join([]string{now.Format(signingDate), s.region, s.service, "aws4_request"}, "/")
	text := strings.Join([]string{
		signingAlgorithm, now.Format(signingTime), where, hexSum([]byte(canonicalRequest(request, headers, names, body))),
	}, "\n")
	key := []byte("AWS4" + c.secret)
	for _, part := range strings.Split(where, "/") {
		key = sum(key, part)
	}
	request.Header.Set("Authorization", signingAlgorithm+" Credential="+c.keyID+"/"+where+
		", SignedHeaders="+names+", Signature="+hex.EncodeToString(sum(key, text)))
}

// signedHeaders returns the headers that are signed, with names in lower case.
func signedHeaders(request *http.Request) map[string]string {
	headers := map[string]string{"host": request.URL.Host}
	for key, values := range request.Header {
		if name := strings.ToLower(key); name == "content-type" || strings.HasPrefix(name, "x-amz-") {
			headers[name] = strings.TrimSpace(strings.Join(values, ","))
		}
	}
	return headers
}

func canonicalRequest(request *http.Request, headers map[string]string, names string, body []byte) string {
	var b strings.Builder
	for _, line := range []string{request.Method, canonicalPath(request.URL), canonicalQuery(request.URL)} {
		b.WriteString(line + "\n")
	}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		b.WriteString(name + ":" + headers[name] + "\n")
	}
	b.WriteString("\n" + names + "\n" + hexSum(body))
	return b.String()
}

// canonicalPath returns the path as it is sent, encoded once more.
func canonicalPath(address *url.URL) string {
	path := address.EscapedPath()
	if path == "" {
		return "/"
	}
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		segments[i] = escape(segment)
	}
	return strings.Join(segments, "/")
}

func canonicalQuery(address *url.URL) string {
	return strings.ReplaceAll(address.Query().Encode(), "+", "%20")
}

// escape encodes all but the unreserved characters of RFC 3986 section 2.3.
func escape(text string) string {
	return strings.ReplaceAll(url.QueryEscape(text), "+", "%20")
}

func sum(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

func hexSum(data []byte) string {
	digest := sha256.Sum256(data)
	return hex.EncodeToString(digest[:])
}
