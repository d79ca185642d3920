package webhook

import (
	"context"

	"github.com/certplane/certplane/internal/process/httpsclient"
)

// Credentials are the credentials for calls to an endpoint, for signers whose
// settings name no files. All of them are optional, and none is ever shown.
type Credentials = httpsclient.Credentials

// newClient returns a client with the credentials that are given, or else with
// those in the files of settings. It calls report when the files become unusable,
// with the reason.
func newClient(settings Settings, given *Credentials, report func(context.Context, error)) (*httpsclient.Client, error) {
	return httpsclient.New(httpsclient.Config{
		CA:          httpsclient.File{Path: settings.CAFile, Field: "caFile"},
		Certificate: httpsclient.File{Path: settings.CertFile, Field: "certFile"},
		Key:         httpsclient.File{Path: settings.KeyFile, Field: "keyFile"},
		Token:       httpsclient.File{Path: settings.TokenFile, Field: "tokenFile"},
		Given:       given, ServerName: settings.ServerName, Connections: settings.Concurrency, Report: report,
	})
}
