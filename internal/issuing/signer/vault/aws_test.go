package vault_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/certplane/certplane/internal/issuing/signer/vault"
)

// awsWorld has a service in place of STS.
func awsWorld(t *testing.T) *world {
	t.Helper()
	return awsWorldWith(t, func(w http.ResponseWriter, r *http.Request) {
		if r.PostFormValue("WebIdentityToken") != "jwt-of-sa" || r.PostFormValue("Action") != "AssumeRoleWithWebIdentity" || r.PostFormValue("RoleSessionName") != "cert-manager" {
			http.Error(w, `<ErrorResponse><Error><Code>InvalidIdentityToken</Code><Message>not `+r.PostFormValue("WebIdentityToken")+`</Message></Error></ErrorResponse>`, http.StatusBadRequest)
			return
		}
		_, _ = w.Write([]byte(`<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>
			<SessionToken>session-1</SessionToken><SecretAccessKey>secret-key-1</SecretAccessKey><AccessKeyId>ASIA1</AccessKeyId></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`))
	})
}

func awsWorldWith(t *testing.T, sts http.HandlerFunc) *world {
	t.Helper()
	service := httptest.NewServer(sts)
	t.Cleanup(service.Close)
	w := newWorld(t)
	var err error
	w.clock = quick{testingclock.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))}
	w.pool, err = vault.New(vault.Config{Settings: vault.Settings{AllowLoopback: true}, Clock: w.clock, STS: func(string) string { return service.URL }})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func awsIssuer(i *vault.Issuer) {
	i.Auth = vault.Auth{AWS: &vault.AWS{
		Role: "r", Region: "eu-central-1", IAMRoleARN: "arn:aws:iam::1:role/x", HeaderValue: "vault.example.com", ServiceAccount: &vault.ServiceAccount{Name: "sa", Audiences: []string{"mine"}},
	}}
}

// The login is a signed call of GetCallerIdentity, which this test verifies by
// itself.
func TestAWSLogin(t *testing.T) {
	w := awsWorld(t)
	if err := w.pool.Verify(t.Context(), w.issuer(awsIssuer), w.access()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"sa[sts.amazonaws.com mine]"}, w.accounts); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
	login := w.Calls()[0]
	if login.String() != "PUT /v1/auth/aws/login" || login.Body["role"] != "r" || login.Body["iam_http_request_method"] != "POST" {
		t.Fatalf("login %s %v", login, login.Body)
	}
	decoded := func(name string) string {
		data, err := base64.StdEncoding.DecodeString(login.Body[name].(string))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if got := decoded("iam_request_url"); got != "https://sts.eu-central-1.amazonaws.com/" {
		t.Errorf("URL %s", got)
	}
	if got := decoded("iam_request_body"); got != "Action=GetCallerIdentity&Version=2011-06-15" {
		t.Errorf("body %s", got)
	}
	var headers map[string][]string
	if err := json.Unmarshal([]byte(decoded("iam_request_headers")), &headers); err != nil {
		t.Fatal(err)
	}
	if headers["X-Vault-AWS-IAM-Server-ID"][0] != "vault.example.com" || headers["X-Amz-Security-Token"][0] != "session-1" {
		t.Errorf("headers %v", headers)
	}
	verifySignature(t, headers, decoded("iam_request_body"))
}

// verifySignature computes the signature as Amazon's documentation describes it.
func verifySignature(t *testing.T, headers map[string][]string, body string) {
	t.Helper()
	lower := map[string]string{"host": "sts.eu-central-1.amazonaws.com"}
	for name, values := range headers {
		lower[strings.ToLower(name)] = values[0]
	}
	parts := regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=ASIA1/20260301/eu-central-1/sts/aws4_request, SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$`).FindStringSubmatch(lower["authorization"])
	if parts == nil {
		t.Fatalf("authorization %s", lower["authorization"])
	}
	if !strings.Contains(parts[1], "host;x-amz-date;x-amz-security-token;x-vault-aws-iam-server-id") {
		t.Errorf("signed headers %s", parts[1])
	}
	hash := func(text string) string { sum := sha256.Sum256([]byte(text)); return hex.EncodeToString(sum[:]) }
	canonical := "POST\n/\n\n"
	for _, name := range strings.Split(parts[1], ";") {
		canonical += name + ":" + lower[name] + "\n"
	}
	canonical += "\n" + parts[1] + "\n" + hash(body)
	key := []byte("AWS4secret-key-1")
	for _, part := range []string{"20260301", "eu-central-1", "sts", "aws4_request"} {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(part))
		key = h.Sum(nil)
	}
	h := hmac.New(sha256.New, key)
	h.Write([]byte("AWS4-HMAC-SHA256\n20260301T120000Z\n20260301/eu-central-1/sts/aws4_request\n" + hash(canonical)))
	if got := hex.EncodeToString(h.Sum(nil)); got != parts[2] {
		t.Errorf("signature %s, want %s", parts[2], got)
	}
}

func TestSTSErrors(t *testing.T) {
	tests := []struct {
		reason string
		answer http.HandlerFunc
		want   string
	}{
		{"it refuses", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`<ErrorResponse><Error><Code>AccessDenied</Code><Message>with ` + r.PostFormValue("WebIdentityToken") + `</Message></Error></ErrorResponse>`))
		}, "error assuming role with web identity: STS answers with HTTP status 403, AccessDenied: with (not shown)"},
		{"no XML", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "secret page", http.StatusBadGateway) },
			"error assuming role with web identity: STS answers with HTTP status 502"},
		{"no credentials", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<x/>")) },
			"error assuming role with web identity: the answer of STS contains no credentials"},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
		},
			"error assuming role with web identity: STS answers with HTTP status 307"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := awsWorldWith(t, tc.answer)
			err := w.pool.Verify(t.Context(), w.issuer(awsIssuer), w.access())
			if want := "while requesting a Vault token using the AWS auth: " + tc.want; kind(err) != "init" || vault.Text(err) != want {
				t.Errorf("error %v, want %s", err, want)
			}
		})
	}
}
