package webhook

import (
	"context"
	"net/http"
	"net/url"

	"k8s.io/client-go/rest"
)

// aggregator is an API server that has webhooks behind it.
type aggregator struct {
	client *http.Client
	base   *url.URL
}

func newAggregator(cfg *rest.Config) (*aggregator, error) {
	cfg = rest.CopyConfig(cfg)
	if cfg.UserAgent == "" {
		cfg.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, err
	}
	return &aggregator{client: withoutRedirects(client), base: base}, nil
}

// withoutRedirects returns a client that sends what it has to one server only.
func withoutRedirects(client *http.Client) *http.Client {
	return &http.Client{
		Transport:     client.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (a *aggregator) send(ctx context.Context, path []string, body []byte) (*http.Response, error) {
	request, err := newRequest(ctx, a.base.JoinPath(path...).String(), body)
	if err != nil {
		return nil, err
	}
	return a.client.Do(request)
}
