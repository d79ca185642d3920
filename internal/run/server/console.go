package server

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/apiserver"
	"github.com/certplane/certplane/internal/client/console"
	"github.com/certplane/certplane/internal/inprocess/loopback"
	"github.com/certplane/certplane/internal/inprocess/objectpass"
	"github.com/certplane/certplane/internal/process/buildinfo"
	"github.com/certplane/certplane/internal/process/httpsclient"
)

// providerConnections is the most connections to the provider of OpenID Connect.
const providerConnections = 10

// openConsole returns the console, which calls the API within the process as the user who
// has logged in; nil if it is switched off.
func openConsole(settings console.Settings, url string, objects *objectpass.Objects, credentials *credentials) (*apiserver.Console, error) {
	if !settings.Enabled {
		return nil, nil
	}
	secret, err := x509.MarshalPKCS8PrivateKey(credentials.serviceAccountKey)
	if err != nil {
		return nil, fmt.Errorf("deriving the key of the console: %w", err)
	}
	sealer, err := console.NewSealer(secret, time.Now)
	if err != nil {
		return nil, err
	}
	provider, err := openProvider(settings.OpenIDConnect)
	if err != nil {
		return nil, err
	}
	inside := loopback.New(objects)
	login := &console.Login{API: &rest.Config{Host: url, Transport: inside, QPS: -1, DisableCompression: true}, Sealer: sealer, OIDC: provider, NewSecret: rand.Text}
	handler := console.New(console.Config{
		Base: console.Path, User: login.User, Login: login, Kubectl: []string{"certplane", "kubectl"}, Version: buildinfo.Read().Version, Now: time.Now,
	})
	return &apiserver.Console{Path: console.Path, Handler: handler, Live: console.Path + console.LivePath, Inside: inside.Serve}, nil
}

// openProvider returns the provider of OpenID Connect; nil if there is none.
func openProvider(settings console.OIDCSettings) (*console.OIDC, error) {
	if settings.IssuerURL == "" {
		return nil, nil
	}
	reach, err := httpsclient.New(httpsclient.Config{
		CA:          httpsclient.File{Path: settings.CAFile, Field: "console.openIDConnect.caFile"},
		Token:       httpsclient.File{Path: settings.ClientSecretFile, Field: "console.openIDConnect.clientSecretFile"},
		Connections: providerConnections,
		Report: func(ctx context.Context, err error) {
			if err != nil {
				klog.FromContext(ctx).Error(err, "Cannot use the changed files of console.openIDConnect")
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return &console.OIDC{IssuerURL: settings.IssuerURL, ClientID: settings.ClientID, Scopes: settings.Scopes, Connect: reach.Current}, nil
}

// consoleURL returns where the console is; empty if it is switched off.
func consoleURL(settings console.Settings, url string) string {
	if !settings.Enabled {
		return ""
	}
	return url + console.Path
}
