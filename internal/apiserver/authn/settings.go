package authn

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Settings is the stanza "authentication".
type Settings struct {
	// clientCAFile is a PEM bundle of CAs whose client certificates are accepted,
	// in addition to those of pki/client-ca-root.crt in the data folder and to
	// the CAs of the server's own signers of API clients. The common name of the
	// subject is the user; its organizations are the groups. Both files are read
	// again when they change. Default: none.
	ClientCAFile string `json:"clientCAFile,omitempty"`
	// configFile is an AuthenticationConfiguration of apiserver.config.k8s.io, as
	// for kube-apiserver. It lists OpenID Connect issuers whose tokens are
	// accepted, and the paths that are open to requests without credentials. It
	// is read again when it changes; an invalid change is logged, counted in
	// apiserver_authentication_config_controller_automatic_reloads_total and not
	// used. Default: none; then /healthz, /livez, /readyz and /version are open.
	ConfigFile string `json:"configFile,omitempty"`
	// serviceAccounts configures the tokens of service accounts.
	ServiceAccounts ServiceAccounts `json:"serviceAccounts"`
	// bootstrap configures how new nodes get their first certificate.
	Bootstrap Bootstrap `json:"bootstrap"`
	// webhook is another server that reviews tokens which this server does not
	// recognize.
	Webhook Webhook `json:"webhook"`
	// requestHeader trusts a proxy in front of the server to name the user.
	RequestHeader RequestHeader `json:"requestHeader"`
}

// ServiceAccounts is the stanza "authentication.serviceAccounts".
type ServiceAccounts struct {
	// issuer is the https URL in the tokens' claim "iss". Services that verify
	// tokens on their own fetch its /.well-known/openid-configuration, which
	// this server serves. Default: https://kubernetes.default.svc.
	Issuer string `json:"issuer"`
	// formerIssuers are further accepted values of "iss", for tokens from before
	// a change of the issuer. Default: none.
	FormerIssuers []string `json:"formerIssuers,omitempty"`
	// keysURI is the https URL of this server's /openid/v1/jwks, as services
	// that verify tokens reach it. Default: on the server's listen address.
	KeysURI string `json:"keysURI,omitempty"`
	// formerKeyFiles are PEM files of keys, private or public, whose tokens are
	// accepted in addition to those signed with pki/service-account.key in the
	// data folder. Default: none.
	FormerKeyFiles []string `json:"formerKeyFiles,omitempty"`
	// apiAudiences are the audiences of this server: a token is accepted if it is
	// for one of them. A token request that names no audience gets a token for
	// all of them. Default: the issuer.
	APIAudiences []string `json:"apiAudiences,omitempty"`
	// maxTokenExpiration is the longest lifetime of a token: requests for a
	// longer one get this lifetime and a warning. At least 1h. It also limits
	// tokens that extendTokenExpiration extends, but not tokens in Secrets,
	// which never expire. Default: 0s, no limit.
	MaxTokenExpiration metav1.Duration `json:"maxTokenExpiration"`
	// extendTokenExpiration gives tokens that kubelets request for pods (they
	// ask for 3607 seconds) a year, for programs that do not read a renewed
	// token from its file. Use of such a token after the requested time is
	// recorded in the audit log. They become invalid with their pod in any
	// case. Default: true.
	ExtendTokenExpiration bool `json:"extendTokenExpiration"`
}

// Bootstrap is the stanza "authentication.bootstrap".
type Bootstrap struct {
	// tokens makes the server accept bootstrap tokens, which "certplane token
	// create" makes. Default: true.
	Tokens bool `json:"tokens"`
	// nodes lets the holders of bootstrap tokens, the group
	// system:bootstrappers, request client certificates of nodes, lets nodes
	// renew theirs, and lets the approver approve both. If false, these three
	// ClusterRoleBindings are removed. Default: true.
	Nodes bool `json:"nodes"`
}

// Webhook is the stanza "authentication.webhook".
type Webhook struct {
	// kubeconfig is a file with the address of the webhook: TokenReviews of
	// authentication.k8s.io are POSTed to its server's URL. Default: none, no
	// webhook is called.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// version of TokenReview, v1 or v1beta1. Default: v1.
	Version string `json:"version"`
	// cacheTTL is how long answers are cached: a token that the webhook no
	// longer accepts may work for that long. 0s disables the cache. Default:
	// 2m.
	CacheTTL metav1.Duration `json:"cacheTTL"`
}

// RequestHeader is the stanza "authentication.requestHeader".
type RequestHeader struct {
	// caFile is a PEM bundle of the CAs of the proxy's client certificate. No
	// CA among them may issue certificates to other clients. It is read again
	// when it changes. Default: none, which trusts no proxy. These headers are
	// ignored in requests of other clients.
	CAFile string `json:"caFile,omitempty"`
	// allowedNames are the common names that the proxy's certificate may have.
	// Default: none, which allows every certificate of the CAs.
	AllowedNames []string `json:"allowedNames,omitempty"`
	// usernameHeaders are read in order; the first with a value names the user.
	UsernameHeaders []string `json:"usernameHeaders"`
	// uidHeaders are read in order; the first with a value is the user's UID.
	UIDHeaders []string `json:"uidHeaders"`
	// groupHeaders contain one group each.
	GroupHeaders []string `json:"groupHeaders"`
	// extraHeaderPrefixes are the prefixes of headers with further attributes of
	// the user.
	ExtraHeaderPrefixes []string `json:"extraHeaderPrefixes"`
}

// DefaultSettings returns the settings that apply if nothing is configured.
func DefaultSettings() Settings {
	return Settings{
		ServiceAccounts: ServiceAccounts{
			Issuer:                "https://kubernetes.default.svc",
			ExtendTokenExpiration: true,
		},
		Bootstrap: Bootstrap{Tokens: true, Nodes: true},
		Webhook:   Webhook{Version: "v1", CacheTTL: metav1.Duration{Duration: 2 * time.Minute}},
		RequestHeader: RequestHeader{
			UsernameHeaders:     []string{"X-Remote-User"},
			UIDHeaders:          []string{"X-Remote-Uid"},
			GroupHeaders:        []string{"X-Remote-Group"},
			ExtraHeaderPrefixes: []string{"X-Remote-Extra-"},
		},
	}
}

// Validate returns an error with the field of the first value that cannot work.
func (s Settings) Validate() error {
	return cmp.Or(s.ServiceAccounts.validate(), s.Webhook.validate(), s.RequestHeader.validate())
}

func (s ServiceAccounts) validate() error {
	const stanza = "authentication.serviceAccounts."
	if err := checkIssuer(stanza+"issuer", s.Issuer); err != nil {
		return err
	}
	if s.KeysURI != "" {
		if err := checkHTTPS(stanza+"keysURI", s.KeysURI); err != nil {
			return err
		}
	}
	err := cmp.Or(checkFilled(stanza+"formerIssuers", s.FormerIssuers), checkFilled(stanza+"apiAudiences", s.APIAudiences))
	if err != nil {
		return err
	}
	longest := s.MaxTokenExpiration.Duration
	if longest != 0 && (longest < time.Hour || longest > math.MaxUint32*time.Second) {
		return fmt.Errorf("%smaxTokenExpiration: %s must be 0s, or 1h at least and 2^32 seconds at most", stanza, longest)
	}
	return nil
}

// checkIssuer checks the rules of OpenID Connect Discovery 1.0 section 3.
func checkIssuer(field, issuer string) error {
	if err := checkHTTPS(field, issuer); err != nil {
		return err
	}
	parsed, err := url.Parse(issuer)
	if err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	if parsed.RawQuery != "" || parsed.Fragment != "" {
		return fmt.Errorf("%s: %q must have no query and no fragment", field, issuer)
	}
	return nil
}

func checkHTTPS(field, value string) error {
	parsed, err := url.Parse(value)
	if err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	if parsed.Scheme != "https" || parsed.Host == "" {
		return fmt.Errorf("%s: %q must be a URL that starts with https://", field, value)
	}
	return nil
}

// audiences returns the audiences of the API server.
func (s ServiceAccounts) audiences() []string {
	if len(s.APIAudiences) > 0 {
		return s.APIAudiences
	}
	return []string{s.Issuer}
}

func (w Webhook) validate() error {
	if w.Version != "v1" && w.Version != "v1beta1" {
		return fmt.Errorf("authentication.webhook.version: %q must be v1 or v1beta1", w.Version)
	}
	if w.CacheTTL.Duration < 0 {
		return fmt.Errorf("authentication.webhook.cacheTTL: %s must be 0s or more", w.CacheTTL.Duration)
	}
	return nil
}

func (r RequestHeader) validate() error {
	if r.CAFile == "" {
		return nil
	}
	if len(r.UsernameHeaders) == 0 {
		return fmt.Errorf("authentication.requestHeader.usernameHeaders: is empty, and without it the proxy cannot name the user")
	}
	const stanza = "authentication.requestHeader."
	return cmp.Or(
		checkFilled(stanza+"allowedNames", r.AllowedNames),
		checkFilled(stanza+"usernameHeaders", r.UsernameHeaders),
		checkFilled(stanza+"uidHeaders", r.UIDHeaders),
		checkFilled(stanza+"groupHeaders", r.GroupHeaders),
		checkFilled(stanza+"extraHeaderPrefixes", r.ExtraHeaderPrefixes),
	)
}

// checkFilled refuses empty values in a list.
func checkFilled(field string, values []string) error {
	for i, value := range values {
		if strings.TrimSpace(value) == "" {
			return fmt.Errorf("%s[%d]: is empty", field, i)
		}
	}
	return nil
}
