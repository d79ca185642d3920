// Package webhook has DNS webhooks of cert-manager write TXT records. They are
// called through an API server that has them behind it, or directly.
package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
)

const (
	// version is the version of the API of webhooks.
	version = "v1alpha1"
	// timeout limits one call. API servers end a call after about 34 s.
	timeout = 30 * time.Second
	// maxBody is the maximum size of an answer, in bytes.
	maxBody = 1 << 20
)

// Identity is the user name and groups that are sent to webhooks with a client
// certificate.
type Identity struct {
	User   string
	Groups []string
}

// Config describes where webhooks are.
type Config struct {
	// Settings are the webhooks that are called directly. They must be valid.
	Settings []Settings
	// API is the API server through which all other webhooks are called, if there is one.
	API *rest.Config
	// Identity is that of calls with a client certificate.
	Identity Identity
	// Proxy, if not nil, returns the client certificate for calls without
	// credentials in Settings. Webhooks know its CA.
	Proxy func() (*tls.Certificate, error)
}

// Caller calls webhooks. It is safe for concurrent use.
type Caller struct {
	direct map[string]*endpoint // by group
	api    *aggregator          // nil: there is none
}

// New returns a Caller. Unusable files are reported here and not with the first
// call.
func New(cfg Config) (*Caller, error) {
	c := &Caller{direct: map[string]*endpoint{}}
	for i, settings := range cfg.Settings {
		e, err := newEndpoint(settings, cfg.Identity, cfg.Proxy)
		if err != nil {
			return nil, fmt.Errorf("acme.dns01.webhooks[%d].%w", i, err)
		}
		c.direct[settings.GroupName] = e
	}
	if cfg.API == nil {
		return c, nil
	}
	var err error
	if c.api, err = newAggregator(cfg.API); err != nil {
		return nil, fmt.Errorf("making the client for DNS webhooks: %w", err)
	}
	return c, nil
}

// route is one way to a webhook.
type route interface {
	// send makes one HTTP call.
	send(ctx context.Context, path []string, body []byte) (*http.Response, error)
	// hint returns what to check after an answer with this status; empty if there is
	// nothing to suggest.
	hint(status int, group, solver string) string
}

// Call sends the request to a webhook, which carries it out. Its errors are for the status
// of a Challenge.
func (c *Caller) Call(ctx context.Context, group, solver string, request Request) error {
	way, err := c.routeTo(group, solver)
	if err != nil {
		return err
	}
	body, err := encode(request)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	response, err := way.send(ctx, []string{"apis", group, version, solver}, body)
	if err != nil {
		return fmt.Errorf("calling the DNS webhook of group %q: %w", group, stable(err))
	}
	defer response.Body.Close()
	return read(response, way, group, solver)
}

// routeTo finds a webhook. group and solver come from issuers, so they are checked: they
// become parts of a path.
func (c *Caller) routeTo(group, solver string) (route, error) {
	switch {
	case group == "":
		return nil, errors.New("webhook.groupName is empty: it must be the API group of the DNS webhook")
	case checkGroup(group) != nil:
		return nil, fmt.Errorf("webhook.groupName: %w", checkGroup(group))
	case len(validation.IsDNS1123Subdomain(solver)) > 0:
		return nil, fmt.Errorf("webhook.solverName: %q is not a valid name of an API resource", solver)
	}
	if e, ok := c.direct[group]; ok {
		return e, nil
	}
	if c.api == nil {
		return nil, fmt.Errorf("no DNS webhook of group %q is configured: add it to acme.dns01.webhooks", group)
	}
	return c.api, nil
}

func read(response *http.Response, way route, group, solver string) error {
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody+1))
	switch {
	case err != nil:
		return fmt.Errorf("reading the answer of the DNS webhook of group %q: %w", group, stable(err))
	case response.StatusCode < 200 || response.StatusCode > 299:
		return refusal(response.StatusCode, body, way, group, solver)
	case len(body) > maxBody:
		return fmt.Errorf("the answer of the DNS webhook of group %q has more than %d bytes", group, maxBody)
	}
	return judge(body)
}

// stable returns an error without local addresses and ports, which differ each time: these
// texts are stored.
func stable(err error) error {
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		err = wrapped.Err
		if wrapped.Timeout() {
			return errors.New("no answer in time")
		}
	}
	var network *net.OpError
	switch {
	case errors.As(err, &network) && network.Addr != nil:
		return fmt.Errorf("%s %s: %w", network.Op, network.Addr, network.Err)
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("no answer in time")
	}
	return err
}

func newRequest(ctx context.Context, address string, body []byte) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("making the request: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, */*")
	return request, nil
}
