//lint:file-ignore ST1005 the texts of errors are those that users of cert-manager know

// Package acmedns writes TXT records at acme-dns servers.
package acmedns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"

	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
	"github.com/certplane/certplane/internal/acme/solver/dns/restcall"
)

// account is the registration of one domain at a server.
type account struct {
	FullDomain string `json:"fulldomain"`
	Subdomain  string `json:"subdomain"`
	Username   string `json:"username"`
	Password   string `json:"password"`
}

// Provider writes records with the accounts of one solver. It writes at the
// name of an account, to which the record of the domain must be a CNAME: the
// name and the zone of provider.Record mean nothing to it.
type Provider struct {
	server   string // URL, without a slash at its end
	accounts map[string]account
	slots    *Slots
	env      provider.Env
}

// New returns a provider for a solver. It reads the Secret of the solver.
func (s *Slots) New(ctx context.Context, env provider.Env, spec *acmev1.ACMEIssuerDNS01ProviderAcmeDNS) (provider.Provider, error) {
	secret, err := env.Secret(ctx, spec.AccountSecret.Name, spec.AccountSecret.Key)
	if err != nil {
		return nil, fmt.Errorf("error getting acmedns accounts secret: %w", err)
	}
	server, err := serverURL(spec.Host)
	if err != nil {
		return nil, instantiating(fmt.Errorf("Error creating acme-dns client: %w", err))
	}
	accounts := map[string]account{}
	if err := json.Unmarshal(secret, &accounts); err != nil {
		return nil, instantiating(fmt.Errorf("Error unmarshalling accountJSON: %w", harmless(err)))
	}
	return &Provider{server: server, accounts: accounts, slots: s, env: env}, nil
}

func instantiating(err error) error {
	return fmt.Errorf("error instantiating acmedns challenge solver: %w", err)
}

// harmless returns an error of encoding/json without its quotes from the document, which
// contains passwords.
func harmless(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("not valid JSON at byte %d", syntax.Offset)
	}
	return errors.New("not a map of domains to accounts")
}

func serverURL(host string) (string, error) {
	parsed, err := url.Parse(host)
	switch {
	case err != nil:
		return "", errors.New("host is not a URL")
	case (parsed.Scheme != "https" && parsed.Scheme != "http") || parsed.Host == "":
		return "", fmt.Errorf("host must be a URL that begins with https:// or http://, not %.100q", host)
	case parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "":
		return "", errors.New("host must be a URL without user, query and fragment")
	}
	return strings.TrimRight(host, "/"), nil
}

// Present sets one of the two values of the account's name.
func (p *Provider) Present(ctx context.Context, r provider.Record) error {
	account, found := p.accounts[r.Domain]
	if !found {
		return fmt.Errorf("account credentials not found for domain %s", r.Domain)
	}
	for _, value := range []string{account.Username, account.Password} {
		if err := restcall.CheckHeader(value); err != nil {
			return fmt.Errorf("the account for domain %s is invalid: %w", r.Domain, err)
		}
	}
	return p.slots.present(ctx, p.slotName(account), r.Value, p.env.Now, func() error { return p.update(ctx, account, r.Value) })
}

// CleanUp releases the place of the value. acme-dns has no call to remove a value: it
// replaces the older of two.
func (p *Provider) CleanUp(_ context.Context, r provider.Record) error {
	if account, found := p.accounts[r.Domain]; found {
		p.slots.release(p.slotName(account), r.Value)
	}
	return nil
}

func (p *Provider) slotName(a account) string { return p.server + " " + a.Subdomain }

func (p *Provider) update(ctx context.Context, a account, value string) error {
	api := restcall.New(restcall.Config{
		HTTP: p.env.HTTP, Now: p.env.Now, Timeout: 30 * time.Second, Explain: explain, Secrets: []string{a.Username, a.Password},
		Authorize: func(request *http.Request, _ []byte) error {
			request.Header.Set("X-Api-User", a.Username)
			request.Header.Set("X-Api-Key", a.Password)
			return nil
		},
	})
	var answer struct{}
	_, err := api.JSON(ctx, http.MethodPost, p.server+"/update", nil, map[string]string{"subdomain": a.Subdomain, "txt": value}, &answer)
	if err != nil {
		return fmt.Errorf("updating the TXT record at acme-dns: %w", err)
	}
	return nil
}

func explain(_ int, body []byte) restcall.Fault {
	var answer struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return restcall.Fault{}
	}
	return restcall.Fault{Message: answer.Error}
}
