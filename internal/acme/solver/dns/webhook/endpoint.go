package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/url"

	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/process/httpsclient"
)

// maxConnections is how many connections to one webhook there are.
const maxConnections = 8

// endpoint is a webhook that is called directly.
type endpoint struct {
	settings Settings
	identity Identity
	client   *httpsclient.Client
}

// byProxy reports whether the webhook authenticates this process as a front proxy: by a
// client certificate and the name of a user.
func (e *endpoint) byProxy() bool {
	return e.identity.User != "" && (e.settings.ClientCertFile != "" || !e.settings.hasCredentials())
}

// newEndpoint reads the files for the first time. proxy returns the certificate
// where the settings name no credentials.
func newEndpoint(settings Settings, identity Identity, proxy func() (*tls.Certificate, error)) (*endpoint, error) {
	switch {
	case settings.hasCredentials():
		proxy = nil
	case proxy == nil:
		return nil, errors.New("tokenFile: set it, or clientCertFile and clientKeyFile: only certplane serve issues itself a client certificate for webhooks")
	}
	client, err := httpsclient.New(httpsclient.Config{
		Present:     proxy,
		CA:          httpsclient.File{Path: settings.CAFile, Field: "caFile"},
		Certificate: httpsclient.File{Path: settings.ClientCertFile, Field: "clientCertFile"},
		Key:         httpsclient.File{Path: settings.ClientKeyFile, Field: "clientKeyFile"},
		Token:       httpsclient.File{Path: settings.TokenFile, Field: "tokenFile"},
		Connections: maxConnections,
		Report: func(ctx context.Context, failure error) {
			if failure != nil {
				klog.FromContext(ctx).Error(failure, "Cannot use the changed files of a DNS webhook; using their former content", "group", settings.GroupName)
			}
		},
	})
	return &endpoint{settings, identity, client}, err
}

func (e *endpoint) send(ctx context.Context, path []string, body []byte) (*http.Response, error) {
	address, err := url.JoinPath(e.settings.URL, path...)
	if err != nil {
		return nil, err
	}
	request, err := newRequest(ctx, address, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "certplane")
	client, token, err := e.client.Current(ctx)
	if client == nil {
		return nil, err
	} // otherwise, the error is reported
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	if e.byProxy() {
		request.Header.Set("X-Remote-User", e.identity.User)
		for _, group := range e.identity.Groups {
			request.Header.Add("X-Remote-Group", group)
		}
	}
	return client.Do(request)
}
