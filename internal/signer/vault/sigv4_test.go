package vault

import (
	"strings"
	"testing"
	"time"
)

// The vectors are those of the test suite that Amazon publishes.
func TestSignatureVersion4(t *testing.T) {
	keys := awsKeys{id: "AKIDEXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}
	now := time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)
	tests := []struct {
		reason    string
		request   awsRequest
		session   string
		signed    string
		signature string
	}{
		{
			reason: "post-vanilla", request: awsRequest{host: "example.amazonaws.com", path: "/"},
			signed: "host;x-amz-date", signature: "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
		},
		{
			reason: "post-x-www-form-urlencoded", request: awsRequest{
				host: "example.amazonaws.com", path: "/", body: "Param1=value1", header: map[string]string{"content-type": "application/x-www-form-urlencoded"},
			},
			signed: "content-type;host;x-amz-date", signature: "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
		},
		{
			reason: "post-header-value-case", request: awsRequest{host: "example.amazonaws.com", path: "/", header: map[string]string{"my-header1": "VALUE1"}},
			signed: "host;my-header1;x-amz-date", signature: "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d",
		},
		{
			reason: "post-sts-header-before", request: awsRequest{host: "example.amazonaws.com", path: "/"},
			session: "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==",
			signed:  "host;x-amz-date;x-amz-security-token", signature: "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
		},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			keys.session = credential(tc.session)
			got := tc.request.sign(keys, "us-east-1", "service", now)["authorization"]
			want := "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=" + tc.signed + ", Signature=" + tc.signature
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if strings.Contains(got, string(keys.secret)) {
				t.Error("shows the key")
			}
		})
	}
}
