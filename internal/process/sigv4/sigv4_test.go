package sigv4_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/certplane/certplane/internal/process/sigv4"
)

var (
	now  = time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)
	keys = sigv4.Credentials{KeyID: "AKIDEXAMPLE", Secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}
)

const session = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=="

// The vectors are those of AWS's documentation and of the test suite that it publishes.
func TestSignPublished(t *testing.T) {
	const form = "application/x-www-form-urlencoded"
	tests := []struct {
		reason, method, address, body, session, service string
		header                                          map[string]string
		signed, signature                               string
	}{
		{
			reason: "documentation", method: "GET", address: "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08", service: "iam",
			header: map[string]string{"Content-Type": form + "; charset=utf-8"},
			signed: "content-type;host;x-amz-date", signature: "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7",
		},
		{
			reason: "post-vanilla", signed: "host;x-amz-date", signature: "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
		},
		{
			reason: "post-x-www-form-urlencoded", body: "Param1=value1", header: map[string]string{"Content-Type": form},
			signed: "content-type;host;x-amz-date", signature: "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
		},
		{
			reason: "post-header-value-case", header: map[string]string{"My-Header1": "VALUE1"},
			signed: "host;my-header1;x-amz-date", signature: "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d",
		},
		{
			reason: "post-sts-header-before", session: session,
			signed: "host;x-amz-date;x-amz-security-token", signature: "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
		},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			request, keys := requestOf(t, cmp.Or(tt.method, "POST"), cmp.Or(tt.address, "https://example.amazonaws.com/"), tt.header), keys
			keys.Session = tt.session
			sigv4.Sign(request, []byte(tt.body), keys, "us-east-1", cmp.Or(tt.service, "service"), now)
			want := "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/" + cmp.Or(tt.service, "service") + "/aws4_request, SignedHeaders=" + tt.signed + ", Signature=" + tt.signature
			if got := request.Header.Get("Authorization"); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// The signatures are those of AWS's own library.
func TestSignLikeTheSDK(t *testing.T) {
	tests := []struct {
		reason, method, address, body, session string
	}{
		{reason: "no path", method: "GET", address: "https://sts.eu-west-1.amazonaws.com"},
		{reason: "a query in another order", method: "GET", address: "https://route53.amazonaws.com/2013-04-01/hostedzonesbyname?maxitems=1&dnsname=a.example.com"},
		{reason: "a query with spaces and signs", method: "GET", address: "https://route53.amazonaws.com/x?b=a+b%20c&a=%2F~*%27%28"},
		{reason: "a path with escapes", method: "GET", address: "https://route53.amazonaws.com/a%2Fb/c%20d/*~e"},
		{reason: "a body", method: "POST", address: "https://route53.amazonaws.com/2013-04-01/hostedzone/Z1/rrset", body: "<a/>"},
		{reason: "temporary credentials", method: "POST", address: "https://route53.amazonaws.com/2013-04-01/hostedzone/Z1/rrset", body: "<a/>", session: "session=="},
	}
	for _, tt := range tests {
		header := map[string]string{"Content-Type": "application/xml", "X-Vault-Aws-Iam-Server-Id": "a  b "}
		theirs := requestOf(t, tt.method, tt.address, header)
		sum := sha256.Sum256([]byte(tt.body))
		credentials := aws.Credentials{AccessKeyID: keys.KeyID, SecretAccessKey: keys.Secret, SessionToken: tt.session}
		if err := v4.NewSigner().SignHTTP(t.Context(), credentials, theirs, hex.EncodeToString(sum[:]), "route53", "us-east-1", now); err != nil {
			t.Fatal(err)
		}
		ours, keys := requestOf(t, tt.method, tt.address, header), keys
		ours.Header.Set("User-Agent", "certplane")
		ours.Header.Set("Accept", "application/json")
		keys.Session = tt.session
		sigv4.Sign(ours, []byte(tt.body), keys, "us-east-1", "route53", now)
		if got, want := ours.Header.Get("Authorization"), theirs.Header.Get("Authorization"); got != want {
			t.Errorf("%s:\n got %s\nwant %s", tt.reason, got, want)
		}
	}
}

func requestOf(t *testing.T, method, address string, header map[string]string) *http.Request {
	t.Helper()
	request, err := http.NewRequest(method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range header {
		request.Header.Set(name, value)
	}
	return request
}
