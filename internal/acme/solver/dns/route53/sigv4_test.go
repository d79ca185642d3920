package route53

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/certplane/certplane/internal/acme/solver/dns/providertest"
)

// The example of AWS's documentation of signatures.
func TestSignPublishedExample(t *testing.T) {
	request, _ := http.NewRequest(http.MethodGet, "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08", nil)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	sign(request, nil, credentials{keyID: "AKIDEXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"},
		scope{region: "us-east-1", service: "iam"}, time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC))
	const want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, " +
		"SignedHeaders=content-type;host;x-amz-date, Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
	if got := request.Header.Get("Authorization"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// The signatures are those of AWS's own library.
func TestSignLikeTheSDK(t *testing.T) {
	tests := []struct {
		reason  string
		method  string
		address string
		body    string
		session string
	}{
		{reason: "no path", method: "GET", address: "https://sts.eu-west-1.amazonaws.com"},
		{reason: "a query in another order", method: "GET", address: "https://route53.amazonaws.com/2013-04-01/hostedzonesbyname?maxitems=1&dnsname=a.example.com"},
		{reason: "a query with spaces and signs", method: "GET", address: "https://route53.amazonaws.com/x?b=a+b%20c&a=%2F~*%27%28"},
		{reason: "a path with escapes", method: "GET", address: "https://route53.amazonaws.com/a%2Fb/c%20d/*~e"},
		{reason: "a body", method: "POST", address: "https://route53.amazonaws.com/2013-04-01/hostedzone/Z1/rrset", body: "<a/>"},
		{reason: "temporary credentials", method: "POST", address: "https://route53.amazonaws.com/2013-04-01/hostedzone/Z1/rrset", body: "<a/>", session: "session=="},
	}
	for _, test := range tests {
		request, err := http.NewRequest(test.method, test.address, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/xml")
		request.Header.Set("User-Agent", "certplane")
		sign(request, []byte(test.body), credentials{keyID: "AKID", secret: "secret", session: test.session}, scope{region: "us-east-1", service: "route53"}, providertest.Now)
		if want := sdkSignature(t, request, []byte(test.body), aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "secret", SessionToken: test.session}); request.Header.Get("Authorization") != want {
			t.Errorf("%s:\n got %s\nwant %s", test.reason, request.Header.Get("Authorization"), want)
		}
	}
}

// sdkSignature returns what AWS's library puts in the header Authorization of a
// signed request: same headers, time, region and service.
func sdkSignature(t testing.TB, request *http.Request, body []byte, c aws.Credentials) string {
	t.Helper()
	authorization := request.Header.Get("Authorization")
	at, err := time.Parse(signingTime, request.Header.Get("X-Amz-Date"))
	_, credential, found := strings.Cut(authorization, "/")
	where := strings.Split(credential, "/")
	if err != nil || !found || len(where) < 4 {
		return "malformed: " + authorization
	}
	other, err := http.NewRequest(request.Method, request.URL.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	other.Host = request.Host
	other.Header.Set("Content-Type", request.Header.Get("Content-Type"))
	if request.Header.Get("Content-Type") == "" {
		other.Header.Del("Content-Type")
	}
	digest := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(t.Context(), c, other, hex.EncodeToString(digest[:]), where[2], where[1], at); err != nil {
		t.Fatal(err)
	}
	return other.Header.Get("Authorization")
}
