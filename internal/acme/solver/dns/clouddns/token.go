package clouddns

import (
	"cmp"
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/certplane/certplane/internal/acme/solver/dns/ambient"
	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
	"github.com/certplane/certplane/internal/acme/solver/dns/restcall"
)

const (
	// dnsScope is the scope of tokens.
	dnsScope = "https://www.googleapis.com/auth/ndev.clouddns.readwrite"
	// assertionLifetime is how long an assertion is valid; the most that is
	// accepted.
	assertionLifetime = time.Hour
	// metadataTimeout is the maximum time of a call to the metadata server, which is on
	// the same host or does not exist.
	metadataTimeout = 5 * time.Second
)

// endpoints are where tokens come from.
type endpoints struct {
	// token is the URL for keys that name none.
	token string
	// exchange is the URL where tokens of other providers are exchanged.
	exchange string
	// metadata is the URL of the metadata server.
	metadata string
}

func defaultEndpoints() endpoints {
	return endpoints{token: "https://oauth2.googleapis.com/token", exchange: "https://sts.googleapis.com/v1/token", metadata: "http://metadata.google.internal"}
}

// source fetches tokens.
type source struct {
	env       provider.Env
	host      ambient.Host
	endpoints endpoints
}

type fetch func(ctx context.Context) (restcall.Token, error)

// keyFile is a file with credentials.
type keyFile struct {
	Type         string `json:"type"`
	ClientEmail  string `json:"client_email"`
	PrivateKey   string `json:"private_key"`
	PrivateKeyID string `json:"private_key_id"`
	TokenURI     string `json:"token_uri"`
	// Of users.
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	RefreshToken string `json:"refresh_token"`
	externalAccount
}

func parseKeyFile(data []byte) (keyFile, error) {
	var file keyFile
	if json.Unmarshal(data, &file) != nil { // its errors quote the file
		return keyFile{}, errors.New("the credentials are not a JSON object")
	}
	return file, nil
}

// fromKey fetches tokens for the key of a service account. Other kinds of
// credentials are refused: they would make the controller read files and URLs of
// their choice.
func (s source) fromKey(data []byte) (fetch, error) {
	file, err := parseKeyFile(data)
	if err != nil {
		return nil, err
	}
	if file.Type != "service_account" {
		return nil, fmt.Errorf("the credentials have the type %.40q, not service_account", file.Type)
	}
	return s.fromAccount(file)
}

func (s source) fromAccount(file keyFile) (fetch, error) {
	address := cmp.Or(file.TokenURI, s.endpoints.token)
	if err := checkURL("token_uri", address); err != nil {
		return nil, err
	}
	key, err := parseKey(file.PrivateKey)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (restcall.Token, error) {
		assertion, err := newAssertion(file, key, address, s.env.Now())
		if err != nil {
			return restcall.Token{}, err
		}
		return s.exchange(ctx, address, url.Values{
			"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {assertion},
		}, assertion)
	}, nil
}

func checkURL(field, address string) error {
	if parsed, err := url.Parse(address); err != nil || parsed.Scheme != "https" || parsed.User != nil {
		return fmt.Errorf("%s of the credentials must be a URL that begins with https://", field)
	}
	return nil
}

// ambient fetches tokens for the process: of the file that
// GOOGLE_APPLICATION_CREDENTIALS names, or of the metadata server.
func (s source) ambient() (fetch, error) {
	path := s.host.Getenv("GOOGLE_APPLICATION_CREDENTIALS")
	if path == "" {
		return s.fromMetadata, nil
	}
	data, err := s.host.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading GOOGLE_APPLICATION_CREDENTIALS: %w", err)
	}
	file, err := parseKeyFile(data)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading GOOGLE_APPLICATION_CREDENTIALS: %w", err)
	case file.Type == "service_account":
		return s.fromAccount(file)
	case file.Type == "authorized_user":
		return s.fromUser(file), nil
	case file.Type == "external_account":
		return s.fromExternal(file.externalAccount)
	}
	return nil, fmt.Errorf("reading GOOGLE_APPLICATION_CREDENTIALS: the type %.40q is not supported; it must be service_account, authorized_user or external_account", file.Type)
}

func (s source) fromUser(file keyFile) fetch {
	return func(ctx context.Context) (restcall.Token, error) {
		return s.exchange(ctx, s.endpoints.token, url.Values{
			"grant_type": {"refresh_token"}, "client_id": {file.ClientID}, "client_secret": {file.ClientSecret}, "refresh_token": {file.RefreshToken},
		}, file.ClientSecret, file.RefreshToken)
	}
}

// tokenAnswer is an answer of a token endpoint or of the metadata server.
type tokenAnswer struct {
	AccessToken string `json:"access_token"`
	ExpiresIn   int    `json:"expires_in"`
}

func (a tokenAnswer) token() restcall.Token {
	lifetime := min(max(a.ExpiresIn, 0), 24*60*60)
	return restcall.Token{Value: a.AccessToken, Lifetime: time.Duration(lifetime) * time.Second}
}

func (s source) exchange(ctx context.Context, address string, form url.Values, secrets ...string) (restcall.Token, error) {
	api := restcall.New(restcall.Config{HTTP: s.env.HTTP, Now: s.env.Now, Explain: explainToken, Secrets: secrets})
	var answer tokenAnswer
	if err := api.Form(ctx, address, form, &answer); err != nil {
		return restcall.Token{}, fmt.Errorf("getting a token of Google: %w", err)
	}
	return answer.token(), nil
}

func (s source) fromMetadata(ctx context.Context) (restcall.Token, error) {
	address := s.endpoints.metadata
	if host := s.host.Getenv("GCE_METADATA_HOST"); host != "" {
		address = "http://" + host
	}
	api := restcall.New(restcall.Config{HTTP: s.env.Metadata, Now: s.env.Now, Timeout: metadataTimeout})
	var answer tokenAnswer
	_, err := api.JSON(ctx, http.MethodGet, address+"/computeMetadata/v1/instance/service-accounts/default/token?scopes="+url.QueryEscape(dnsScope),
		http.Header{"Metadata-Flavor": {"Google"}}, nil, &answer)
	if err != nil {
		return restcall.Token{}, fmt.Errorf("getting a token of the metadata server: %w", err)
	}
	return answer.token(), nil
}

// explainToken reads the errors of token endpoints (RFC 6749 section 5.2).
func explainToken(_ int, body []byte) restcall.Fault {
	var answer struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return restcall.Fault{}
	}
	return restcall.Fault{Code: answer.Error, Message: answer.Description}
}

func parseKey(text string) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("private_key of the credentials is not PEM")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, isRSA := parsed.(*rsa.PrivateKey)
	if err != nil || !isRSA {
		return nil, errors.New("private_key of the credentials is not an RSA key")
	}
	return key, nil
}

// newAssertion returns a signed statement of the identity that requests a token (RFC
// 7523).
func newAssertion(file keyFile, key *rsa.PrivateKey, audience string, now time.Time) (string, error) {
	header, err := json.Marshal(map[string]string{"alg": "RS256", "typ": "JWT", "kid": file.PrivateKeyID})
	if err != nil {
		return "", fmt.Errorf("encoding the assertion: %w", err)
	}
	claims, err := json.Marshal(map[string]any{
		"iss": file.ClientEmail, "scope": dnsScope, "aud": audience, "iat": now.Unix(), "exp": now.Add(assertionLifetime).Unix(),
	})
	if err != nil {
		return "", fmt.Errorf("encoding the assertion: %w", err)
	}
	signed := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(claims)
	digest := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, digest[:]) // deterministic
	if err != nil {
		return "", fmt.Errorf("signing the assertion: %w", err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}
