package venafi

import (
	"errors"
	"fmt"
	"time"

	"github.com/Venafi/vcert/v5/pkg/certificate"
	"github.com/Venafi/vcert/v5/pkg/endpoint"
	"github.com/Venafi/vcert/v5/pkg/venafi/tpp"
)

const (
	// tppScope is what tokens are for: TPP has no narrower scope to request
	// certificates with.
	tppScope = "certificate:manage"
	// tppClientID is the API integration that a server knows, unless the Secret names
	// another one.
	tppClientID = "cert-manager.io"
	// shortLife is for how long a token is kept whose life the server does not tell.
	shortLife = 5 * time.Minute
)

type tppConnector struct {
	orders
	tpp *tpp.Connector
}

func newTPP(t target, l *line) (connector, error) {
	c, err := tpp.NewConnector(t.URL, t.Zone, false, nil)
	if err != nil {
		return nil, err
	}
	c.SetUserAgent(t.userAgent)
	c.SetHTTPClient(l.client())
	reset := func(req *certificate.Request) error {
		// A failed earlier request would block the object. Certificates that were issued for
		// it stay valid.
		if err := c.ResetCertificate(req, false); err != nil && !tpp.IsCertNotFound(err) {
			return err
		}
		return nil
	}
	return &tppConnector{orders{t, c, l, reset}, c}, nil
}

func (c *tppConnector) login() (*grant, error) {
	if token := c.credentials.accessToken; token != "" {
		g := &grant{token: token}
		return g, c.verify(g)
	}
	id := c.credentials.clientID
	if id == "" {
		id = tppClientID
	}
	got, err := c.tpp.GetRefreshToken(&endpoint.Authentication{
		User: string(c.credentials.user), Password: string(c.credentials.password), ClientId: id, Scope: tppScope,
	})
	if err == nil && got.Access_token == "" {
		err = errors.New("the server has granted no token")
	}
	if err != nil {
		return nil, fmt.Errorf("tppClient.GetRefreshToken: %w", err)
	}
	g := &grant{token: credential(got.Access_token), life: shortLife, renewable: true, own: true}
	now := c.line.session.clock.Now()
	if life := time.Duration(got.ExpiresIn) * time.Second; life > 0 {
		g.life = life
	} else if life := time.Unix(int64(got.Expires), 0).Sub(now); life > 0 {
		g.life = life
	}
	return g, c.use(g)
}

// use must hide the client from vcert, which would otherwise request the owner of the
// token: the scope of the token does not permit that.
func (c *tppConnector) use(g *grant) error {
	c.tpp.SetHTTPClient(nil)
	defer c.tpp.SetHTTPClient(c.line.client())
	return c.tpp.Authenticate(&endpoint.Authentication{AccessToken: string(g.token)})
}

func (c *tppConnector) verify(g *grant) error {
	if _, err := c.tpp.VerifyAccessToken(&endpoint.Authentication{AccessToken: string(g.token)}); err != nil {
		return fmt.Errorf("tppClient.VerifyAccessToken: %w", err)
	}
	return nil
}

func (c *tppConnector) revoke(g *grant) error {
	return c.tpp.RevokeAccessToken(&endpoint.Authentication{AccessToken: string(g.token)})
}

func (c *tppConnector) close() {}
