package akamai

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// The cases of Akamai's published test data that sign no headers and have
// bodies within the limit.
func TestSignPublishedCases(t *testing.T) {
	tests := []struct {
		reason string
		method string
		path   string
		body   string
		want   string
	}{
		{reason: "simple GET", method: "GET", path: "/", want: "tL+y4hxyHxgWVD30X3pWnGKHcPzmrIF+LThiAOhMxYU="},
		{reason: "GET with a query", method: "GET", path: "/testapi/v1/t1?p1=1&p2=2", want: "hKDH1UlnQySSHjvIcZpDMbQHihTQ0XyVAKZaApabdeA="},
		{reason: "GET with a semicolon in its path", method: "GET", path: "/testapi/v1/configs/111;222;333?from=12345&limit=200000", want: "pmQF7Is2+O4r/mMojPR4yeF58BrempNNoBX5/DT0Fxs="},
		{reason: "POST", method: "POST", path: "/testapi/v1/t3", body: strings.Repeat("data", 8), want: "hXm4iCxtpN22m4cbZb4lVLW5rhX8Ca82vCFqXzSTPe4="},
		{reason: "POST of 2048 bytes", method: "POST", path: "/testapi/v1/t3", body: strings.Repeat("d", 2048), want: "6Q6PiTipLae6n4GsSIDTCJ54bEbHUBp+4MUXrbQCBoY="},
		{reason: "POST without a body", method: "POST", path: "/testapi/v1/t6", want: "1gEDxeQGD5GovIkJJGcBaKnZ+VaPtrc4qBUHixjsPCQ="},
		{reason: "PUT, whose body is not signed", method: "PUT", path: "/testapi/v1/t6", body: strings.Repeat("P", 31), want: "GNBWEYSEWOLtu+7dD52da2C39aX/Jchpon3K/AmBqBU="},
	}
	c := credentials{
		clientToken: "akab-client-token-xxx-xxxxxxxxxxxxxxxx", accessToken: "akab-access-token-xxx-xxxxxxxxxxxxxxxx",
		clientSecret: "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx=",
	}
	now := time.Date(2014, 3, 21, 20, 34, 21, 0, time.FixedZone("CET", 3600))
	for _, test := range tests {
		request, err := http.NewRequest(test.method, "https://akaa-baseurl-xxxxxxxxxxx-xxxxxxxxxxxxx.luna.akamaiapis.net"+test.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		sign(request, []byte(test.body), c, now, "nonce-xx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")
		want := "EG1-HMAC-SHA256 client_token=akab-client-token-xxx-xxxxxxxxxxxxxxxx;access_token=akab-access-token-xxx-xxxxxxxxxxxxxxxx;" +
			"timestamp=20140321T19:34:21+0000;nonce=nonce-xx-xxxx-xxxx-xxxx-xxxxxxxxxxxx;signature=" + test.want
		if got := request.Header.Get("Authorization"); got != want {
			t.Errorf("%s:\n got %s\nwant %s", test.reason, got, want)
		}
	}
}
