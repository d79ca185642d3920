package dnsquery

import (
	"bytes"
	"io"
	"net/http"
	"testing"
)

// FuzzReply reads replies of others over HTTPS.
func FuzzReply(f *testing.F) {
	f.Add([]byte{0, 1, 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0, 1, 'a', 0, 0, 16, 0, 1})
	f.Add([]byte{0, 1, 0x81, 0x80, 0, 0, 0, 1, 0, 0, 0, 0, 0xc0, 12, 0, 16, 0, 1, 0, 0, 0, 0, 0, 2, 1, 'x'})
	f.Fuzz(func(t *testing.T, body []byte) {
		reply, err := readHTTP(&http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {mediaType}}, Body: io.NopCloser(bytes.NewReader(body))})
		if err == nil && reply == nil {
			t.Error("neither a reply nor an error")
		}
	})
}
