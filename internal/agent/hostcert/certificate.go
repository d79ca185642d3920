// Package hostcert describes the certificates of programs that run on a host
// directly: the short form of a Pod manifest.
package hostcert

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/certplane/certplane/internal/agent/hook"
)

// Certificate is an element of "certificates". The agent registers a Pod for
// it, with one projected volume.
type Certificate struct {
	// name is the name of the Pod, which is registered as NAME-NODE. Default:
	// the directory with - for /, so etc-nginx-tls for /etc/nginx/tls.
	Name string `json:"name,omitempty"`
	// namespace is the namespace of the Pod. Default: default.
	Namespace string `json:"namespace,omitempty"`
	// serviceAccount is the service account for which the certificate is requested. The
	// host needs the verb host on it. Default: default.
	ServiceAccount string `json:"serviceAccount,omitempty"`
	// signer is the signer's name, like example.com/hosts. It must accept
	// PodCertificateRequests.
	Signer string `json:"signer"`
	// dnsNames and ipAddresses are the requested names and addresses. The request contains
	// them as comma-separated lists in the annotations certplane.dev/dns-names and
	// certplane.dev/ip-addresses. The signer decides about them. Default: what the signer
	// gives without them.
	DNSNames    []string `json:"dnsNames,omitempty"`
	IPAddresses []string `json:"ipAddresses,omitempty"`
	// keyType is ECDSAP256, ECDSAP384, ECDSAP521, ED25519, RSA3072 or RSA4096.
	// Default: ECDSAP256.
	KeyType string `json:"keyType,omitempty"`
	// duration is the longest lifetime, from 1h to 91d. Default: 24h. The
	// signer may give less.
	Duration metav1.Duration `json:"duration,omitempty"`
	// directory is the folder of the files, an absolute path. It is created if it does not
	// exist. It must belong to root or to the agent's user, like all folders above it. The
	// agent does not touch other files in it.
	Directory string `json:"directory"`
	// files are the names of the files. Default: tls.crt and tls.key.
	Files Files `json:"files,omitempty"`
	// owner and group are a user and a group of this host, by name or number.
	// Default: those of the agent.
	Owner string `json:"owner,omitempty"`
	Group string `json:"group,omitempty"`
	// mode is the mode of all files, in octal, like 0640. Default: 0644 for
	// certificates; for keys 0600, or 0640 with a group.
	Mode *int32 `json:"mode,omitempty"`
	// afterRefresh lists the actions that notify the program of new files. Each element
	// sets command and timeout, or signal and pidFile.
	AfterRefresh []hook.Program `json:"afterRefresh,omitempty"`
}

// Files are the names of the files of a certificate. A file without a name is
// not written.
type Files struct {
	// certificate is the file for the certificate and its intermediates.
	Certificate string `json:"certificate,omitempty"`
	// key has the private key.
	Key string `json:"key,omitempty"`
	// bundle is the file for the key, the certificate and its intermediates.
	Bundle string `json:"bundle,omitempty"`
	// roots is the file for the roots of the signer, from its ClusterTrustBundles.
	Roots string `json:"roots,omitempty"`
	// crl is the file for the revocation lists of all CAs of the signer and of the CAs above,
	// in PEM.
	CRL string `json:"crl,omitempty"`
	// crlDER is the file for the revocation list of the CA that has issued the certificate, in
	// DER, for etcd.
	CRLDER string `json:"crlDER,omitempty"`
}

// The defaults of a certificate.
const (
	defaultKeyType     = "ECDSAP256"
	defaultCertificate = "tls.crt"
	defaultKey         = "tls.key"
)

// orDefault returns the names of the files that are written.
func (f Files) orDefault() Files {
	if f.Certificate == "" && f.Key == "" && f.Bundle == "" {
		f.Certificate, f.Key = defaultCertificate, defaultKey
	}
	return f
}

// validate returns an error for two files of one name, by the field of the
// second.
func (f Files) validate() error {
	taken := map[string]bool{}
	for _, file := range []struct{ field, name string }{
		{"certificate", f.Certificate}, {"key", f.Key}, {"bundle", f.Bundle}, {"roots", f.Roots}, {"crl", f.CRL}, {"crlDER", f.CRLDER},
	} {
		if strings.HasPrefix(file.field, "crl") && strings.ContainsAny(file.name, " ,") {
			return fmt.Errorf("files.%s: %q has a space or a comma", file.field, file.name)
		}
		if taken[file.name] {
			return fmt.Errorf("files.%s: %q is already the name of another file", file.field, file.name)
		}
		taken[file.name] = file.name != ""
	}
	return nil
}

var notInName = regexp.MustCompile("[^a-z0-9]+")

// name returns the name of the certificate's Pod.
func (c Certificate) name() string {
	if c.Name != "" {
		return c.Name
	}
	return strings.Trim(notInName.ReplaceAllString(strings.ToLower(c.Directory), "-"), "-")
}

// namespace returns the namespace of the certificate's Pod.
func (c Certificate) namespace() string {
	if c.Namespace != "" {
		return c.Namespace
	}
	return metav1.NamespaceDefault
}

// key returns the namespace and the name of the certificate's Pod.
func (c Certificate) key() string { return c.namespace() + "/" + c.name() }

// Validate reports the first value that cannot work, by its field. Which users
// the host has is not looked up.
func Validate(all []Certificate) error {
	names, dirs := map[string]int{}, map[string]int{}
	for i, c := range all {
		if err := c.validate(); err != nil {
			return fmt.Errorf("certificates[%d].%w", i, err)
		}
		if first, taken := dirs[c.Directory]; taken {
			return fmt.Errorf("certificates[%d].directory: %s is already the directory of certificates[%d]", i, c.Directory, first)
		}
		if first, taken := names[c.key()]; taken {
			return fmt.Errorf("certificates[%d].name: %s is already the name of certificates[%d]: set another name", i, c.key(), first)
		}
		names[c.key()], dirs[c.Directory] = i, i
	}
	return nil
}

func (c Certificate) validate() error {
	if !filepath.IsAbs(c.Directory) || c.Directory == "/" || filepath.Clean(c.Directory) != c.Directory {
		return fmt.Errorf("directory: %q is not the absolute path of a folder, like /etc/nginx/tls", c.Directory)
	}
	if err := c.validateNames(); err != nil {
		return err
	}
	if c.Mode != nil && (*c.Mode < 0 || *c.Mode > 0o777) {
		return fmt.Errorf("mode: %#o is not from 0 to 0777: write it in octal, like 0640", *c.Mode)
	}
	for _, account := range []struct{ field, name string }{{"owner", c.Owner}, {"group", c.Group}} {
		if strings.ContainsAny(account.name, ":/ ") {
			return fmt.Errorf("%s: %q is not a name or a number", account.field, account.name)
		}
	}
	for i, program := range c.AfterRefresh {
		if err := program.Validate(); err != nil {
			return fmt.Errorf("afterRefresh[%d].%w", i, err)
		}
	}
	if err := c.Files.orDefault().validate(); err != nil {
		return err
	}
	_, err := c.pod(nil, nil)
	return err
}

func (c Certificate) validateNames() error {
	for i, name := range c.DNSNames {
		if len(validation.IsDNS1123Subdomain(strings.TrimPrefix(name, "*."))) > 0 {
			return fmt.Errorf("dnsNames[%d]: %q is not a DNS name in lower case", i, name)
		}
	}
	for i, text := range c.IPAddresses {
		if address, err := netip.ParseAddr(text); err != nil || address.Zone() != "" {
			return fmt.Errorf("ipAddresses[%d]: %q is not an IP address", i, text)
		}
	}
	if c.Duration.Duration < 0 {
		return errors.New("duration: must be 1h or more")
	}
	return nil
}
