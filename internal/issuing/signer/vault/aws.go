package vault

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/certplane/certplane/internal/issuing/signer/outbound"
	"github.com/certplane/certplane/internal/process/sigv4"
)

const (
	// defaultRegion is the AWS region of issuers without a region.
	defaultRegion = "us-east-1"
	// awsAudience is the audience that STS requires in tokens.
	awsAudience = "sts.amazonaws.com"
	// sessionName is the session name in AWS logs.
	sessionName = "cert-manager"
	// identityBody asks STS for the identity that signed the request.
	identityBody = "Action=GetCallerIdentity&Version=2011-06-15"
	formType     = "application/x-www-form-urlencoded; charset=utf-8"
	// idHeader holds the value that binds a login to one Vault.
	idHeader = "X-Vault-AWS-IAM-Server-ID"
)

// regions matches the names of regions: a region becomes a part of a host.
var regions = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

var errAmbient = errors.New("cannot authenticate to Vault using ambient AWS credentials: set auth.aws.serviceAccountRef, " +
	"or enable ambient credentials via --issuer-ambient-credentials / --cluster-issuer-ambient-credentials")

// awsKeys are temporary credentials of AWS.
type awsKeys struct {
	id              string
	secret, session credential
}

// awsLogin logs in by a signed call of AWS, which Vault makes in its turn.
func (p *Pool) awsLogin(i Issuer, by AWS, access Access) (login, error) {
	at, err := loginPath(by.MountPath, "/v1/auth/aws")
	if err != nil {
		return login{}, err
	}
	region := by.Region
	if region == "" {
		region = defaultRegion
	}
	switch {
	case by.ServiceAccount == nil:
		return login{}, errAmbient
	case !regions.MatchString(region):
		return login{}, fmt.Errorf("region %q is not the name of a region", region)
	}
	return login{method: "aws", failed: "error calling Vault server", prepare: func(ctx context.Context) (call, error) {
		keys, err := p.assumeRole(ctx, i, by, region, access)
		if err != nil {
			return call{}, err
		}
		body, sent, err := identityCall(keys, by, region, p.clock.Now())
		if err != nil {
			return call{}, err
		}
		return call{method: http.MethodPut, path: at, body: body, sent: sent}, nil
	}}, nil
}

// identityCall returns the body of the login: a signed call of
// GetCallerIdentity. It and its parts are credentials.
func identityCall(keys awsKeys, by AWS, region string, now time.Time) (map[string]string, []credential, error) {
	header := http.Header{"Content-Type": {formType}, "Content-Length": {fmt.Sprint(len(identityBody))}}
	if by.HeaderValue != "" {
		header[idHeader] = []string{by.HeaderValue}
	}
	at := &url.URL{Scheme: "https", Host: "sts." + region + ".amazonaws.com", Path: "/"}
	sigv4.Sign(&http.Request{Method: http.MethodPost, URL: at, Header: header}, []byte(identityBody),
		sigv4.Credentials{KeyID: keys.id, Secret: string(keys.secret), Session: string(keys.session)}, region, "sts", now)
	encoded, err := json.Marshal(header)
	if err != nil {
		return nil, nil, fmt.Errorf("error encoding headers: %w", err)
	}
	base := base64.StdEncoding.EncodeToString
	headers := base(encoded)
	return map[string]string{
		"iam_http_request_method": http.MethodPost,
		"iam_request_url":         base([]byte(at.String())),
		"iam_request_headers":     headers,
		"iam_request_body":        base([]byte(identityBody)),
		"role":                    by.Role,
	}, []credential{keys.secret, keys.session, credential(header.Get("Authorization")), credential(headers)}, nil
}

// assumeRole exchanges a token of the service account for temporary credentials
// of the IAM role.
func (p *Pool) assumeRole(ctx context.Context, i Issuer, by AWS, region string, access Access) (awsKeys, error) {
	audiences := slices.Concat([]string{awsAudience}, by.ServiceAccount.Audiences)
	token, err := serviceAccountToken(ctx, i, access, by.ServiceAccount.Name, audiences)
	if err != nil {
		return awsKeys{}, err
	}
	form := url.Values{
		"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"},
		"RoleArn": {by.IAMRoleARN}, "RoleSessionName": {sessionName}, "WebIdentityToken": {string(token)},
	}
	ctx, cancel := context.WithTimeout(ctx, p.settings.Timeout.Duration)
	defer cancel()
	start := p.clock.Now()
	keys, code, err := p.askSTS(ctx, p.sts(region), form, token)
	p.metrics.called(opSTS, code, p.clock.Since(start))
	if err != nil {
		return awsKeys{}, fmt.Errorf("error assuming role with web identity: %w", err)
	}
	return keys, nil
}

// stsURL returns the address of STS in a region.
func stsURL(region string) string {
	domain := "amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		domain = "amazonaws.com.cn"
	}
	return "https://sts." + region + "." + domain + "/"
}

// askSTS makes an unsigned call: the token in it is the proof.
func (p *Pool) askSTS(ctx context.Context, at string, form url.Values, token credential) (keys awsKeys, code string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(form.Encode()))
	if err != nil {
		return awsKeys{}, codeNone, fmt.Errorf("making the request: %w", err)
	}
	request.Header.Set("Content-Type", formType)
	request.Header.Set("User-Agent", userAgent)
	response, err := p.stsClient.Do(request)
	if err != nil {
		return awsKeys{}, codeOf(err), err
	}
	defer response.Body.Close()
	code = fmt.Sprint(response.StatusCode)
	body, err := io.ReadAll(io.LimitReader(response.Body, outbound.MaxBody))
	if err != nil {
		return awsKeys{}, code, fmt.Errorf("reading the answer of STS: %w", err)
	}
	keys, err = readSTS(response.StatusCode, body, token)
	return keys, code, err
}

// readSTS reads an answer of STS.
func readSTS(status int, body []byte, token credential) (awsKeys, error) {
	var answer struct {
		Credentials struct {
			AccessKeyID     string `xml:"AccessKeyId"`
			SecretAccessKey string
			SessionToken    string
		} `xml:"AssumeRoleWithWebIdentityResult>Credentials"`
		Error struct{ Code, Message string }
	}
	err := xml.Unmarshal(body, &answer)
	switch got := answer.Credentials; {
	case status != http.StatusOK && err == nil && answer.Error.Code != "":
		return awsKeys{}, fmt.Errorf("STS answers with HTTP status %d, %s: %s", status,
			outbound.Cut(outbound.Hide(answer.Error.Code, []credential{token}), 64), outbound.Cut(outbound.Hide(answer.Error.Message, []credential{token}), outbound.MaxText/2))
	case status != http.StatusOK:
		return awsKeys{}, fmt.Errorf("STS answers with HTTP status %d", status)
	case err != nil || got.AccessKeyID == "" || got.SecretAccessKey == "" || got.SessionToken == "":
		return awsKeys{}, errors.New("the answer of STS contains no credentials")
	default:
		return awsKeys{id: got.AccessKeyID, secret: credential(got.SecretAccessKey), session: credential(got.SessionToken)}, nil
	}
}
