package akamai

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
	"time"
)

const (
	edgeGridTime = "20060102T15:04:05-0700"
	// maxSigned is how much of a body is signed, in bytes.
	maxSigned = 128 << 10
)

// credentials are the credentials of an API client of Akamai.
type credentials struct {
	clientToken  string
	clientSecret string
	accessToken  string
}

// sign adds a signature of the scheme EG1-HMAC-SHA256 to a request. The server
// accepts each nonce once.
func sign(request *http.Request, body []byte, c credentials, now time.Time, nonce string) {
	timestamp := now.UTC().Format(edgeGridTime)
	header := "EG1-HMAC-SHA256 client_token=" + c.clientToken + ";access_token=" + c.accessToken + ";timestamp=" + timestamp + ";nonce=" + nonce + ";"
	const noHeaders = "" // none is signed
	text := strings.Join([]string{
		request.Method, request.URL.Scheme, request.URL.Host, request.URL.RequestURI(), noHeaders, contentHash(request.Method, body), header,
	}, "\t")
	request.Header.Set("Authorization", header+"signature="+digest(digest(c.clientSecret, timestamp), text))
}

// contentHash is empty for all methods but POST: other bodies are not signed.
func contentHash(method string, body []byte) string {
	if method != http.MethodPost || len(body) == 0 {
		return ""
	}
	sum := sha256.Sum256(body[:min(len(body), maxSigned)])
	return base64.StdEncoding.EncodeToString(sum[:])
}

func digest(key, text string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
