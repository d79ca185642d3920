package authn

import (
	"fmt"
	"slices"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"github.com/certplane/certplane/internal/apiserver/authn/serviceaccount"
)

// certificates returns the authenticator of client certificates. A proxy's
// certificate is checked first: the proxy authenticates other users.
func (a *Authentication) certificates(cfg Config, accounts serviceaccount.Authenticator) ([]authenticator.Request, error) {
	var all []authenticator.Request
	cas := slices.Clone(cfg.ClientCAs)
	if file := cfg.Settings.ClientCAFile; file != "" {
		extra, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca-file", file)
		if err != nil {
			return nil, fmt.Errorf("authentication.clientCAFile: %w", err)
		}
		cas = append(cas, extra)
	}
	for _, ca := range cas {
		all = append(all, podCertificates{newRememberedCertificates(ca.VerifyOptions, cfg.Clock.Now), accounts})
	}
	a.UserCAs = dynamiccertificates.NewUnionCAContentProvider(cas...)
	if cfg.Settings.RequestHeader.CAFile != "" {
		proxy, err := cfg.Settings.RequestHeader.open()
		if err != nil {
			return nil, err
		}
		a.RequestHeader = proxy
		all = append([]authenticator.Request{a.proxy(proxy)}, all...)
		cas = append(slices.Clip(cas), proxy.CAContentProvider)
	}
	a.ClientCAs = dynamiccertificates.NewUnionCAContentProvider(cas...)
	return all, nil
}

// open reads the proxy's CAs.
func (r RequestHeader) open() (*authenticatorfactory.RequestHeaderConfig, error) {
	ca, err := dynamiccertificates.NewDynamicCAContentFromFile("request-header", r.CAFile)
	if err != nil {
		return nil, fmt.Errorf("authentication.requestHeader.caFile: %w", err)
	}
	return &authenticatorfactory.RequestHeaderConfig{
		UsernameHeaders:     headerrequest.StaticStringSlice(r.UsernameHeaders),
		UIDHeaders:          headerrequest.StaticStringSlice(r.UIDHeaders),
		GroupHeaders:        headerrequest.StaticStringSlice(r.GroupHeaders),
		ExtraHeaderPrefixes: headerrequest.StaticStringSlice(r.ExtraHeaderPrefixes),
		CAContentProvider:   ca,
		AllowedClientNames:  headerrequest.StaticStringSlice(r.AllowedNames),
	}, nil
}

// proxy accepts the headers of a proxy that authenticates with its certificate.
func (a *Authentication) proxy(cfg *authenticatorfactory.RequestHeaderConfig) authenticator.Request {
	return authenticator.WrapAudienceAgnosticRequest(a.Audiences, headerrequest.NewDynamicVerifyOptionsSecure(
		cfg.CAContentProvider.VerifyOptions,
		cfg.AllowedClientNames,
		cfg.UsernameHeaders,
		cfg.UIDHeaders,
		cfg.GroupHeaders,
		cfg.ExtraHeaderPrefixes,
	))
}
