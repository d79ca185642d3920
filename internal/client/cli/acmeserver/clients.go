package acmeserver

import (
	"fmt"
	"slices"
	"strings"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/print"
)

// keyVariable is the shell variable that replaces the MAC key where it is not shown.
const keyVariable = "ACME_EAB_KEY"

// ClientLines holds the commands or configuration for one ACME client.
type ClientLines struct {
	Name  string   `json:"name"`
	Lines []string `json:"lines"`
}

// clientLines holds the inputs of the lines for clients.
type clientLines struct {
	Credentials
	domain, roots string
	secret        v1alpha1.AcmeSecret
}

// ClientNames returns the names of the supported clients.
func ClientNames() []string {
	var names []string
	for _, c := range clientTable {
		names = append(names, c.name)
	}
	return names
}

var clientTable = []struct {
	name  string
	lines func(clientLines) []string
}{
	{"certbot", clientLines.certbot},
	{"lego", clientLines.lego},
	{"acme.sh", clientLines.acmesh},
	{"caddy", clientLines.caddy},
	{"cert-manager", clientLines.certManager},
}

// of returns the lines for one client, or for all.
func (l clientLines) of(name string) ([]ClientLines, error) {
	var all []ClientLines
	for _, c := range clientTable {
		if name == "" || name == c.name {
			all = append(all, ClientLines{Name: c.name, Lines: c.lines(l)})
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("unknown client %q: use one of %s", name, strings.Join(ClientNames(), ", "))
	}
	return slices.Clip(all), nil
}

// key returns the MAC key as a shell word.
func (l clientLines) key() string {
	if l.MACKey == "" {
		return `"$` + keyVariable + `"`
	}
	return print.Quote(l.MACKey)
}

func (l clientLines) certbot() []string {
	return []string{fmt.Sprintf("REQUESTS_CA_BUNDLE=%s certbot certonly --standalone -n --agree-tos --register-unsafely-without-email --server %s --eab-kid %s --eab-hmac-key %s -d %s",
		print.Quote(l.roots), l.Directory, l.KID, l.key(), l.domain)}
}

func (l clientLines) lego() []string {
	return []string{fmt.Sprintf("LEGO_CA_CERTIFICATES=%s lego --server %s --email ops@%s --accept-tos --eab --kid %s --hmac %s --http -d %s run",
		print.Quote(l.roots), l.Directory, l.zone(), l.KID, l.key(), l.domain)}
}

func (l clientLines) acmesh() []string {
	return []string{
		fmt.Sprintf("acme.sh --register-account --server %s --ca-bundle %s --eab-kid %s --eab-hmac-key %s", l.Directory, print.Quote(l.roots), l.KID, l.key()),
		fmt.Sprintf("acme.sh --issue --standalone --server %s --ca-bundle %s -d %s", l.Directory, print.Quote(l.roots), l.domain),
	}
}

// caddy returns part of a Caddyfile; Caddy reads the key from its environment.
func (l clientLines) caddy() []string {
	key := l.MACKey
	if key == "" {
		key = "{$" + keyVariable + "}"
	}
	return []string{
		l.domain + " {", "  tls {", "    ca " + l.Directory, "    ca_root " + l.roots, "    eab " + l.KID + " " + key, "  }", "}",
	}
}

// certManager returns an Issuer in the namespace of the Secret.
func (l clientLines) certManager() []string {
	return []string{
		"apiVersion: cert-manager.io/v1", "kind: Issuer",
		"metadata: {namespace: " + l.Namespace + ", name: " + l.Name + "}",
		"spec:", "  acme:", "    server: " + l.Directory,
		"    caBundle: ...                 # base64 -w0 " + l.roots,
		"    privateKeySecretRef: {name: " + l.Name + "-account}",
		"    externalAccountBinding:", "      keyID: " + l.KID,
		"      keySecretRef: {name: " + l.secret.Name + ", key: " + l.secret.Key + "}",
		"    solvers:", "    - http01: {ingress: {}}",
	}
}

// zone returns the domain without its first label.
func (l clientLines) zone() string {
	if _, zone, below := strings.Cut(l.domain, "."); below && strings.Contains(zone, ".") {
		return zone
	}
	return l.domain
}
