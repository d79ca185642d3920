package clouddns

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/certplane/certplane/internal/acme/solver/dns/restcall"
)

const (
	// iamScope is the scope of tokens that are exchanged for tokens of a service account.
	iamScope = "https://www.googleapis.com/auth/cloud-platform"
	// impersonated is the lifetime of tokens of such a service account.
	impersonated = time.Hour
)

// externalAccount is an identity of another provider, which Google trusts
// (workload identity federation). Its token is in a file.
type externalAccount struct {
	Audience         string `json:"audience"`
	SubjectTokenType string `json:"subject_token_type"`
	TokenURL         string `json:"token_url"`
	// ImpersonationURL gives tokens of a service account; empty: the identity
	// acts itself.
	ImpersonationURL string `json:"service_account_impersonation_url"`
	Source           struct {
		File   string `json:"file"`
		Format struct {
			Type  string `json:"type"`
			Field string `json:"subject_token_field_name"`
		} `json:"format"`
	} `json:"credential_source"`
}

func (s source) fromExternal(account externalAccount) (fetch, error) {
	account.TokenURL = cmp.Or(account.TokenURL, s.endpoints.exchange)
	if err := checkURL("token_url", account.TokenURL); err != nil {
		return nil, err
	}
	if account.Source.File == "" {
		return nil, errors.New("reading GOOGLE_APPLICATION_CREDENTIALS: credential_source must name a file; other sources are not supported")
	}
	if account.ImpersonationURL == "" {
		return func(ctx context.Context) (restcall.Token, error) { return s.federate(ctx, account, dnsScope) }, nil
	}
	if err := checkURL("service_account_impersonation_url", account.ImpersonationURL); err != nil {
		return nil, err
	}
	return func(ctx context.Context) (restcall.Token, error) { return s.impersonate(ctx, account) }, nil
}

// federate exchanges the token in the file for one of Google (RFC 8693). The file is read
// each time, because its content is replaced regularly.
func (s source) federate(ctx context.Context, account externalAccount, scope string) (restcall.Token, error) {
	subject, err := s.subjectToken(account)
	if err != nil {
		return restcall.Token{}, fmt.Errorf("reading credential_source.file: %w", err)
	}
	return s.exchange(ctx, account.TokenURL, url.Values{
		"grant_type":           {"urn:ietf:params:oauth:grant-type:token-exchange"},
		"requested_token_type": {"urn:ietf:params:oauth:token-type:access_token"},
		"audience":             {account.Audience},
		"scope":                {scope},
		"subject_token_type":   {account.SubjectTokenType},
		"subject_token":        {subject},
	}, subject)
}

func (s source) subjectToken(account externalAccount) (string, error) {
	content, err := s.host.ReadFile(account.Source.File)
	if err != nil || account.Source.Format.Type != "json" {
		return strings.TrimSpace(string(content)), err
	}
	var fields map[string]any
	if json.Unmarshal(content, &fields) != nil { // its errors quote the file
		return "", errors.New("it is not a JSON object")
	}
	token, isText := fields[account.Source.Format.Field].(string)
	if !isText {
		return "", fmt.Errorf("it has no text in the field %.100q", account.Source.Format.Field)
	}
	return token, nil
}

// impersonate gets a token of a service account.
func (s source) impersonate(ctx context.Context, account externalAccount) (restcall.Token, error) {
	own := restcall.NewBearer(func(ctx context.Context) (restcall.Token, error) { return s.federate(ctx, account, iamScope) }, s.env.Now)
	api := restcall.New(restcall.Config{HTTP: s.env.HTTP, Now: s.env.Now, Explain: explain, Authorize: own.Authorize})
	var answer struct {
		AccessToken string    `json:"accessToken"`
		ExpireTime  time.Time `json:"expireTime"`
	}
	wanted := map[string]any{"scope": []string{dnsScope}, "lifetime": fmt.Sprintf("%ds", int(impersonated.Seconds()))}
	if _, err := api.JSON(ctx, http.MethodPost, account.ImpersonationURL, nil, wanted, &answer); err != nil {
		return restcall.Token{}, fmt.Errorf("getting a token of the service account: %w", err)
	}
	return restcall.Token{Value: answer.AccessToken, Lifetime: min(answer.ExpireTime.Sub(s.env.Now()), impersonated)}, nil
}
