// Package sigv4 signs requests to AWS: Signature Version 4.
package sigv4

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
	algorithm = "AWS4-HMAC-SHA256"
	timeForm  = "20060102T150405Z"
	dateForm  = "20060102"
)

// Credentials are a key of AWS. Session belongs to temporary keys, and is empty for other
// keys.
type Credentials struct {
	KeyID, Secret, Session string
}

// Sign adds the headers X-Amz-Date, X-Amz-Security-Token and Authorization to a
// request, with a signature that is valid in a region for a service. All headers
// are signed except those that proxies may change.
func Sign(request *http.Request, body []byte, c Credentials, region, service string, now time.Time) {
	now = now.UTC()
	request.Header.Set("X-Amz-Date", now.Format(timeForm))
	if c.Session != "" {
		request.Header.Set("X-Amz-Security-Token", c.Session)
	}
	canonical, names := canonicalRequest(request, body)
	scope := strings.Join([]string{now.Format(dateForm), region, service, "aws4_request"}, "/")
	key := []byte("AWS4" + c.Secret)
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	signature := mac(key, strings.Join([]string{algorithm, now.Format(timeForm), scope, digest([]byte(canonical))}, "\n"))
	request.Header.Set("Authorization", algorithm+" Credential="+c.KeyID+"/"+scope+", SignedHeaders="+names+", Signature="+hex.EncodeToString(signature))
}

// unsigned are the headers that proxies may change, and the one that gets the
// signature.
var unsigned = []string{"accept", "authorization", "user-agent"}

// canonicalRequest returns the text that is signed, and the names of the headers
// in it.
func canonicalRequest(request *http.Request, body []byte) (text, names string) {
	headers := map[string]string{"host": request.URL.Host}
	for key, values := range request.Header {
		if name := strings.ToLower(key); !slices.Contains(unsigned, name) {
			headers[name] = strings.Join(strings.Fields(strings.Join(values, ",")), " ")
		}
	}
	sorted := slices.Sorted(maps.Keys(headers))
	lines := []string{request.Method, canonicalPath(request.URL), strings.ReplaceAll(request.URL.Query().Encode(), "+", "%20")}
	for _, name := range sorted {
		lines = append(lines, name+":"+headers[name])
	}
	names = strings.Join(sorted, ";")
	return strings.Join(append(lines, "", names, digest(body)), "\n"), names
}

// canonicalPath returns the path of the request, percent-encoded a second time.
func canonicalPath(address *url.URL) string {
	path := address.EscapedPath()
	if path == "" {
		return "/"
	}
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		segments[i] = strings.ReplaceAll(url.QueryEscape(segment), "+", "%20")
	}
	return strings.Join(segments, "/")
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
