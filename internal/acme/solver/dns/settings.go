package dns

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/acme/solver/dns/resolver"
	"github.com/certplane/certplane/internal/acme/solver/dns/webhook"
	"github.com/certplane/certplane/internal/pki"
)

// Settings is the stanza "acme.dns01".
type Settings struct {
	// recursiveNameservers are the name servers that are asked for CNAMEs, zones and
	// authoritative servers: <host>:<port>, or https:// for DNS over HTTPS. Each is asked
	// if those before it do not answer. Default: those in /etc/resolv.conf, else
	// 8.8.8.8:53 and 8.8.4.4:53.
	RecursiveNameservers []string `json:"recursiveNameservers,omitempty"`
	// recursiveNameserversOnly makes self checks ask the recursive name servers for the
	// TXT record, not the authoritative ones of its zone. It is for networks that cannot
	// reach these, or that have another zone of the same name. Default: false.
	RecursiveNameserversOnly bool `json:"recursiveNameserversOnly,omitempty"`
	// caFile is a PEM bundle of CAs that DNS over HTTPS trusts in addition to those of
	// this host. It is read at the start. Default: none.
	CAFile string `json:"caFile,omitempty"`
	// queryTimeout is how long a name server has to answer one query, from 100ms
	// to 10s. A server that does not answer over UDP is asked again over TCP.
	// Default: 5s.
	QueryTimeout metav1.Duration `json:"queryTimeout"`
	// propagationDelay is how long to wait after the first successful self check before
	// the CA is asked to look: servers that were not asked may need more time. At most 1h;
	// 0s is no wait. Default: 10s, or 60s if only recursive name servers were asked,
	// because they cache earlier answers.
	PropagationDelay *metav1.Duration `json:"propagationDelay,omitempty"`
	// clusterIssuerAmbientCredentials lets the solvers of ClusterIssuers use the cloud
	// credentials of this process (environment, metadata service, workload identity) if
	// they name none. Users with write access to ClusterIssuers can then write DNS records
	// with these credentials. Default: true in "certplane controllers", as with
	// cert-manager; false in "certplane serve".
	ClusterIssuerAmbientCredentials *bool `json:"clusterIssuerAmbientCredentials,omitempty"`
	// issuerAmbientCredentials allows the same to Issuers: users with write access to
	// Issuers in any namespace can then use these credentials. Default: false.
	IssuerAmbientCredentials bool `json:"issuerAmbientCredentials,omitempty"`
	// dnsAccount01 allows challenges of type dns-account-01
	// (draft-ietf-acme-dns-account-label), for solvers with webhook.groupName
	// acme.certplane.dev and webhook.solverName dns-account-01. Default: false.
	DNSAccount01 bool `json:"dnsAccount01,omitempty"`
	// dnsPersist01 allows challenges of type dns-persist-01
	// (draft-ietf-acme-dns-persist), for solvers with webhook.groupName
	// acme.certplane.dev and webhook.solverName dns-persist-01. Default: false.
	DNSPersist01 bool `json:"dnsPersist01,omitempty"`
	// webhooks are DNS webhooks of cert-manager that are called directly. In a cluster,
	// all other webhooks are called through the API server.
	Webhooks []webhook.Settings `json:"webhooks,omitempty"`
}

// DefaultSettings returns the defaults.
func DefaultSettings() Settings {
	return Settings{QueryTimeout: metav1.Duration{Duration: 5 * time.Second}}
}

const (
	minQueryTimeout     = 100 * time.Millisecond
	maxQueryTimeout     = 10 * time.Second
	maxPropagationDelay = time.Hour
	maxNameservers      = 16
)

// Validate returns an error for the first invalid value, with the path of its
// field.
func (s Settings) Validate() error {
	if len(s.RecursiveNameservers) > maxNameservers {
		return fmt.Errorf("acme.dns01.recursiveNameservers: has more than %d elements", maxNameservers)
	}
	for i, server := range s.RecursiveNameservers {
		if err := checkNameserver(server); err != nil {
			return fmt.Errorf("acme.dns01.recursiveNameservers[%d]: %w", i, err)
		}
	}
	if d := s.QueryTimeout.Duration; d < minQueryTimeout || d > maxQueryTimeout {
		return fmt.Errorf("acme.dns01.queryTimeout: %s is out of range: must be between %s and %s", d, minQueryTimeout, maxQueryTimeout)
	}
	if d := s.PropagationDelay; d != nil && (d.Duration < 0 || d.Duration > maxPropagationDelay) {
		return fmt.Errorf("acme.dns01.propagationDelay: %s is out of range: must be between 0s and %s", d.Duration, maxPropagationDelay)
	}
	return s.validateWebhooks()
}

func (s Settings) validateWebhooks() error {
	groups := map[string]bool{}
	for i, w := range s.Webhooks {
		path := fmt.Sprintf("acme.dns01.webhooks[%d]", i)
		if err := w.Validate(path); err != nil {
			return err
		}
		if groups[w.GroupName] {
			return fmt.Errorf("%s.groupName: %q has an element already", path, w.GroupName)
		}
		groups[w.GroupName] = true
	}
	return nil
}

func checkNameserver(server string) error {
	if strings.HasPrefix(server, "https://") {
		parsed, err := url.Parse(server)
		if err != nil || parsed.Hostname() == "" || parsed.User != nil || parsed.Fragment != "" {
			return errors.New("must be https:// and the address of a server for DNS over HTTPS, without a user")
		}
		return nil
	}
	host, port, err := net.SplitHostPort(server)
	if number, wrong := strconv.ParseUint(port, 10, 16); err != nil || host == "" || wrong != nil || number == 0 {
		return fmt.Errorf("%q must be <host>:<port>, or begin with https://", server)
	}
	return nil
}

// NewResolver returns the resolver that the settings describe.
func (s Settings) NewResolver(clock clock.PassiveClock) (*resolver.Resolver, error) {
	roots, err := s.roots()
	if err != nil {
		return nil, fmt.Errorf("acme.dns01.caFile: %w", err)
	}
	return resolver.New(resolver.Config{
		Nameservers: s.RecursiveNameservers, Timeout: s.QueryTimeout.Duration, Roots: roots, Clock: clock,
	}), nil
}

// roots returns the CAs for DNS over HTTPS; nil means the host's.
func (s Settings) roots() (*x509.CertPool, error) {
	if s.CAFile == "" {
		return nil, nil
	}
	data, err := os.ReadFile(s.CAFile)
	if err != nil {
		return nil, err
	}
	certs, err := pki.ParseBundle(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.CAFile, err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // a host without any
	}
	for _, cert := range certs {
		roots.AddCert(cert)
	}
	return roots, nil
}

// delay is how long to wait after a successful self check.
func (s Settings) delay(view view) time.Duration {
	switch {
	case s.PropagationDelay != nil:
		return s.PropagationDelay.Duration
	case view == recursive:
		return time.Minute
	default:
		return 10 * time.Second
	}
}
