package cli

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/client/cli/request"
	"github.com/certplane/certplane/internal/client/cli/target"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/profile/readymade"
)

// minExpires is the shortest lifetime that the certificates API accepts.
const minExpires = 600 * time.Second

// config checks the flags and returns the configuration for the request
// package.
func (f *requestFlags) config(given *pflag.FlagSet) (request.Config, error) {
	options, err := f.options(given)
	if err != nil {
		return request.Config{}, err
	}
	keyType, err := f.newKeyType(given)
	if err != nil {
		return request.Config{}, err
	}
	cfg := request.Config{
		Options: options, Name: f.name, KeyFile: f.key, KeyType: keyType, Out: f.out,
		Approve: f.approve, Wait: f.wait, DryRun: request.DryRun(f.dryRun), Output: f.output,
	}
	if cfg.DryRun == request.DryRunNone && cfg.Out == "" {
		cfg.Out = "."
	}
	if cfg.DryRun != request.DryRunNone && cfg.Output == "" {
		cfg.Output = "yaml"
	}
	return cfg, cmp.Or(f.checkMode(), f.checkKubeconfig())
}

func (f *requestFlags) checkMode() error {
	switch {
	case !slices.Contains([]string{"none", "client", "server"}, f.dryRun):
		return fmt.Errorf("--dry-run is %q, want none, client or server", f.dryRun)
	case !slices.Contains([]string{"", "yaml", "json"}, f.output):
		return fmt.Errorf("--output is %q, want yaml or json", f.output)
	case f.approve && f.dryRun != "none":
		return errors.New("--approve cannot go with --dry-run: a dry run creates no request")
	case f.wait < 0:
		return fmt.Errorf("--wait is %s, want 0 or more", f.wait)
	}
	return nil
}

// checkKubeconfig checks the file for a kubeconfig before the key is created.
func (f *requestFlags) checkKubeconfig() error {
	switch {
	case f.kubeconfigOut.Path == "" && f.server == "":
		return nil
	case f.kubeconfigOut.Path == "":
		return errors.New("--server is for the kubeconfig of --kubeconfig-out")
	case f.dryRun != "none":
		return errors.New("--kubeconfig-out: a --dry-run has no certificate to write")
	case f.signer != userSigner:
		return fmt.Errorf("--kubeconfig-out is for client certificates of the API: --signer %s", userSigner)
	case f.cn == "":
		return errors.New("--cn is required with --kubeconfig-out: it is the name of the user")
	}
	if err := completePlace(f.kubeconfigOut, &f.server); err != nil {
		return fmt.Errorf("--kubeconfig-out: %w", err)
	}
	return nil
}

func (f *requestFlags) options(given *pflag.FlagSet) (request.Options, error) {
	w := request.Options{Signer: target.SignerName(f.signer), Expires: f.expires}
	w.CommonName, w.Organizations = f.cn, f.orgs
	w.DNSNames, w.EmailAddresses = f.dns, f.emails
	for _, usage := range f.usages {
		w.Usages = append(w.Usages, certificatesv1.KeyUsage(usage))
	}
	var err error
	if w.IPAddresses, err = parseIPs(f.ips); err != nil {
		return w, err
	}
	if w.URIs, err = parseURIs(f.uris); err != nil {
		return w, err
	}
	err = cmp.Or(f.checkSigner(), f.checkNames())
	if err == nil && given.Changed("expires") {
		err = checkExpires(f.expires)
	}
	return w, err
}

func (f *requestFlags) checkSigner() error {
	if f.signer == "" {
		return fmt.Errorf("--signer is required, like %s for a server, or %s for a user", readymade.Server, certificatesv1.KubeAPIServerClientSignerName)
	}
	if target.SignerName(f.signer) == readymade.ServerSignerName && len(f.dns)+len(f.ips) == 0 {
		return errors.New("--dns or --ip is required: clients know a server by its DNS names and IP addresses")
	}
	return nil
}

func (f *requestFlags) checkNames() error {
	if f.cn == "" && len(f.dns)+len(f.ips)+len(f.uris)+len(f.emails) == 0 {
		return errors.New("--cn is required, unless one of --dns, --ip, --uri and --email is given")
	}
	for _, name := range f.dns {
		if net.ParseIP(name) != nil {
			return fmt.Errorf("--dns %q is an IP address: give it with --ip", name)
		}
		if u, err := url.Parse(name); err == nil && u.Scheme != "" && u.Hostname() != "" {
			return fmt.Errorf("--dns %q is a URL: give the name alone, --dns %s", name, u.Hostname())
		}
		if host, port, err := net.SplitHostPort(name); err == nil && port != "" {
			return fmt.Errorf("--dns %q has a port, and certificates are for all ports: give the name alone, --dns %s", name, host)
		}
		if strings.ContainsAny(name, "/ @") {
			return fmt.Errorf("--dns %q is not a DNS name, such as web.example.com", name)
		}
	}
	return nil
}

// checkExpires returns an error for a lifetime that the certificates API does not
// accept.
func checkExpires(expires time.Duration) error {
	switch {
	case expires < minExpires:
		return fmt.Errorf("--expires is %s, but the certificates API takes no less than 10m (600 s)", expires)
	case expires > math.MaxInt32*time.Second:
		return fmt.Errorf("--expires is %s, but the certificates API takes no more than %s", expires, math.MaxInt32*time.Second)
	case expires%time.Second != 0:
		return fmt.Errorf("--expires is %s, but the certificates API takes whole seconds only", expires)
	}
	return nil
}

func (f *requestFlags) newKeyType(given *pflag.FlagSet) (pki.KeyType, error) {
	if f.key != "" && given.Changed("key-type") {
		return "", errors.New("--key-type is for a new key, but --key names an existing one")
	}
	keyType, err := pki.ParseKeyType(f.keyType)
	if err != nil {
		return "", fmt.Errorf("--key-type: %w", err)
	}
	return keyType, nil
}

func parseIPs(values []string) ([]net.IP, error) {
	var ips []net.IP
	for _, value := range values {
		ip := net.ParseIP(value)
		if ip == nil {
			return nil, fmt.Errorf("--ip %q is not an IP address", value)
		}
		ips = append(ips, ip)
	}
	return ips, nil
}

func parseURIs(values []string) ([]*url.URL, error) {
	var uris []*url.URL
	for _, value := range values {
		uri, err := url.Parse(value)
		if err != nil {
			return nil, fmt.Errorf("--uri: %w", err)
		}
		// RFC 5280 section 4.2.1.6: a name of type URI must not be relative.
		if !uri.IsAbs() {
			return nil, fmt.Errorf("--uri %q is not absolute: it needs a scheme, like spiffe://example.org/web", value)
		}
		uris = append(uris, uri)
	}
	return uris, nil
}

func keyTypeList() []string {
	var names []string
	for _, t := range pki.KeyTypes() {
		names = append(names, string(t))
	}
	return names
}

func keyTypeNames() string { return strings.Join(keyTypeList(), ", ") }

func wellKnownSigners() []string {
	return []string{
		readymade.ServerSignerName,
		certificatesv1.KubeAPIServerClientSignerName,
		certificatesv1.KubeAPIServerClientKubeletSignerName,
		certificatesv1.KubeletServingSignerName,
	}
}
