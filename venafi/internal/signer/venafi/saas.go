package venafi

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/Venafi/vcert/v5/pkg/endpoint"
	"github.com/Venafi/vcert/v5/pkg/venafi/cloud"
	"github.com/Venafi/vcert/v5/pkg/venafi/ngts"
)

// identifier matches identifiers of requests. They become a part of a path, and other
// clients may write the annotation that contains them.
var identifier = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

func checkIdentifier(id string) error {
	if !identifier.MatchString(id) {
		return fmt.Errorf("%q is not the identifier of a request", id)
	}
	return nil
}

type cloudConnector struct {
	orders
	cloud *cloud.Connector
}

func newCloud(t target, l *line) (connector, error) {
	c, err := cloud.NewConnector(t.URL, t.Zone, false, nil)
	if err != nil {
		return nil, err
	}
	c.SetUserAgent(t.userAgent)
	c.SetHTTPClient(l.client())
	return &cloudConnector{orders{target: t, Connector: c, line: l}, c}, nil
}

func (c *cloudConnector) login() (*grant, error) {
	if err := c.verify(nil); err != nil {
		return nil, err
	}
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	return &grant{account: c.line.account}, nil
}

// use makes vcert's call about the account, which the line answers without the server.
func (c *cloudConnector) use(g *grant) error {
	c.line.mu.Lock()
	c.line.account = g.account
	c.line.mu.Unlock()
	return c.authenticate()
}

func (c *cloudConnector) verify(*grant) error {
	c.line.mu.Lock()
	c.line.account = nil
	c.line.mu.Unlock()
	return c.authenticate()
}

func (c *cloudConnector) authenticate() error {
	if err := c.cloud.Authenticate(&endpoint.Authentication{APIKey: string(c.credentials.apiKey)}); err != nil {
		return fmt.Errorf("cloudClient.Authenticate: %w", err)
	}
	return nil
}

func (c *cloudConnector) retrieve(id string, o Order) ([]byte, error) {
	if err := checkIdentifier(id); err != nil {
		return nil, err
	}
	return c.orders.retrieve(id, o)
}

func (c *cloudConnector) revoke(*grant) error { return nil }
func (c *cloudConnector) close()              {}

// The addresses of NGTS.
const (
	ngtsURL      = "https://api.strata.paloaltonetworks.com/ngts"
	ngtsTokenURL = "https://auth.apps.paloaltonetworks.com/oauth2/access_token"
)

type ngtsConnector struct {
	orders
	ngts *ngts.Connector
}

func newNGTS(t target, l *line) (connector, error) {
	c, err := ngts.NewConnector(cmp.Or(t.URL, ngtsURL), t.Zone, false, nil)
	if err != nil {
		return nil, err
	}
	c.SetUserAgent(t.userAgent)
	c.SetHTTPClient(l.client())
	return &ngtsConnector{orders{target: t, Connector: c, line: l}, c}, nil
}

func (c *ngtsConnector) login() (*grant, error) {
	got, err := c.ngts.GetAccessToken(&endpoint.Authentication{
		ClientId: c.credentials.clientID, ClientSecret: string(c.credentials.clientSecret), Scope: "tsg_id:" + c.Tenant,
		TokenURL: cmp.Or(c.TokenURL, ngtsTokenURL),
	})
	if err == nil && got.AccessToken == "" {
		err = errors.New("the server has granted no token")
	}
	if err != nil {
		return nil, fmt.Errorf("ngtsClient.Authenticate: %w", err)
	}
	g := &grant{token: credential(got.AccessToken), life: shortLife, renewable: true}
	if got.ExpiresIn > 0 {
		g.life = time.Duration(got.ExpiresIn) * time.Second
	}
	return g, c.use(g)
}

// use starts vcert's renewal of the token in the background, which close ends.
func (c *ngtsConnector) use(g *grant) error {
	return c.ngts.Authenticate(&endpoint.Authentication{AccessToken: string(g.token)})
}

// verify makes no call: the API has none for it.
func (c *ngtsConnector) verify(*grant) error { return nil }

func (c *ngtsConnector) retrieve(id string, o Order) ([]byte, error) {
	if err := checkIdentifier(id); err != nil {
		return nil, err
	}
	return c.orders.retrieve(id, o)
}

func (c *ngtsConnector) revoke(*grant) error { return nil }

// close ends the renewal of the token. Another login cancels it and starts a new renewal,
// which stops at once because this token has no readable end.
func (c *ngtsConnector) close() {
	_ = c.ngts.Authenticate(&endpoint.Authentication{AccessToken: "none"})
}
