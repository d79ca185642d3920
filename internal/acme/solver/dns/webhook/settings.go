package webhook

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/process/httpsclient"
)

// Settings is an element of "acme.dns01.webhooks".
type Settings struct {
	// groupName is the API group of the webhook: the groupName of the solvers
	// that name it.
	GroupName string `json:"groupName"`
	// url is where the webhook serves its API: https://, a host and a port. A password or
	// a query is not allowed, because it would appear in logs. Redirects are not followed.
	// HTTPS_PROXY and NO_PROXY are honoured.
	URL string `json:"url"`
	// caFile is a PEM bundle that the webhook's certificate must chain to.
	// Default: the CAs that this host trusts. This file and those below are read
	// again for every call, so they can be replaced at any time.
	CAFile string `json:"caFile,omitempty"`
	// clientCertFile and clientKeyFile are the client certificate for the webhook. If its
	// CA is the webhook's request-header CA, the webhook reads the name and the groups of
	// the caller from the headers X-Remote-User and X-Remote-Group. They are sent with
	// each call and name the service account that solves challenges. Set both, or
	// tokenFile, or all three, or none. With none, "certplane serve" issues itself a
	// certificate and renews it. A webhook that was started with
	// --authentication-kubeconfig for this server trusts its CA.
	ClientCertFile string `json:"clientCertFile,omitempty"`
	// clientKeyFile belongs to clientCertFile.
	ClientKeyFile string `json:"clientKeyFile,omitempty"`
	// tokenFile holds a token that is sent as Authorization: Bearer.
	TokenFile string `json:"tokenFile,omitempty"`
}

// Validate returns an error for the first invalid value, with its field under
// path.
func (s Settings) Validate(path string) error {
	if err := checkGroup(s.GroupName); err != nil {
		return fmt.Errorf("%s.groupName: %w", path, err)
	}
	if err := httpsclient.CheckURL(s.URL); err != nil {
		return fmt.Errorf("%s.url: %w", path, err)
	}
	switch {
	case (s.ClientCertFile == "") != (s.ClientKeyFile == ""):
		return fmt.Errorf("%s.clientCertFile and %s.clientKeyFile: set both or none", path, path)
	}
	return nil
}

// hasCredentials reports whether files with credentials are named.
func (s Settings) hasCredentials() bool { return s.ClientCertFile != "" || s.TokenFile != "" }

func checkGroup(group string) error {
	switch {
	case group == "":
		return errors.New("is missing")
	case group == certmanager.ReservedGroup, group == certmanager.ProviderGroup:
		return fmt.Errorf("%q is reserved for the solvers of certplane itself", group)
	case len(validation.IsDNS1123Subdomain(group)) > 0:
		return fmt.Errorf("%q is not a valid API group", group)
	}
	return nil
}
