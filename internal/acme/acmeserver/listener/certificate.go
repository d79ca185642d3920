package listener

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/certplane/certplane/internal/pki"
)

// CertificateSettings is the stanza "acmeServer.certificate".
type CertificateSettings struct {
	// certFile is a PEM file with the certificate and the CAs between it and the
	// root, keyFile its private key. Changes of the files are followed. Default: none.
	// Without files, signer, issuer and self, the CA of the API's own certificate
	// issues the certificate in "certplane serve" and replaces it in time, for the host
	// of externalURL and serving.extraNames; in clusters, the default is self.
	CertFile string `json:"certFile,omitempty"`
	// keyFile belongs to certFile.
	KeyFile string `json:"keyFile,omitempty"`
	// signer is the name of a signer, such as corp.example/hosts, that issues the
	// certificate: the server makes a CertificateSigningRequest, which waits for its
	// approval like any other, and another one before the certificate ends. Key and
	// certificate are kept in the Secret certplane-acme-server in the namespace of the
	// controllers, for all servers of the store. Default: none.
	Signer string `json:"signer,omitempty"`
	// issuer is an issuer of cert-manager.io, or of another group of its kind, that
	// issues the certificate, by CertificateRequests in the namespace of the
	// controllers. Otherwise it is like signer. Default: none.
	Issuer *IssuerSettings `json:"issuer,omitempty"`
	// self makes a private CA of the ACME server issue the certificate. The CA is kept in
	// the Secret, with its key, and replaced in time: its successor is among the roots for
	// 30 days before it issues. Default: false; in clusters true, if nothing else is set.
	Self bool `json:"self,omitempty"`
	// names are further DNS names and addresses of the certificate, such as the hosts
	// of formerURLs. They do not matter with certFile. Default: none.
	Names []string `json:"names,omitempty"`
	// rootFile is a PEM file with the roots that clients verify the certificate with.
	// Clients that do not trust the server yet are shown them, with a fingerprint.
	// Default: with certFile, its last certificate if that is a root; with signer, the
	// roots published for it in ClusterTrustBundles; with issuer, the CA that it names if
	// that is a root; otherwise none.
	RootFile string `json:"rootFile,omitempty"`
}

// IssuerSettings is the stanza "acmeServer.certificate.issuer".
type IssuerSettings struct {
	// name is the name of the issuer. An Issuer is in the namespace of the controllers.
	Name string `json:"name"`
	// kind is Issuer or ClusterIssuer, or a kind of group. Default: Issuer.
	Kind string `json:"kind,omitempty"`
	// group is the API group of the kind. Default: cert-manager.io.
	Group string `json:"group,omitempty"`
}

// ofIssuers is the default group of issuers.
const ofIssuers = "cert-manager.io"

// Own reports whether no source of the certificate is configured.
func (c CertificateSettings) Own() bool { return c.CertFile == "" && !c.Kept() }

// Kept reports whether the certificate is kept in a Secret.
func (c CertificateSettings) Kept() bool { return c.Self || c.Signer != "" || c.Issuer != nil }

// validate returns an error for the first invalid value. It begins with the path of the
// field relative to the settings, and a colon.
func (c CertificateSettings) validate() error {
	if (c.CertFile == "") != (c.KeyFile == "") {
		return errors.New(": set both certFile and keyFile, or none")
	}
	var set []string
	for name, is := range map[string]bool{"certFile": c.CertFile != "", "signer": c.Signer != "", "issuer": c.Issuer != nil, "self": c.Self} {
		if is {
			set = append(set, name)
		}
	}
	if slices.Sort(set); len(set) > 1 {
		return fmt.Errorf(": %s are set, but the certificate has one source", strings.Join(set, " and "))
	}
	if c.RootFile != "" && (c.Own() || c.Self) {
		return errors.New(".rootFile: also set certFile, signer or issuer: the server already has the root of its own certificate")
	}
	for i, name := range c.Names {
		if _, err := netip.ParseAddr(name); err != nil && !pki.ValidDNSName(name) {
			return fmt.Errorf(".names[%d]: %q is neither a DNS name nor an address", i, name)
		}
	}
	if c.Signer != "" {
		if err := checkSigner(c.Signer); err != nil {
			return fmt.Errorf(".signer: %w", err)
		}
	}
	return c.Issuer.validate()
}

// checkSigner returns an error unless a signer of this name can issue certificates of
// servers.
func checkSigner(name string) error {
	domain, path, _ := strings.Cut(name, "/")
	switch {
	case path == "" || !strings.Contains(domain, ".") || !pki.ValidDNSName(domain):
		return fmt.Errorf("%q is not the name of a signer, such as corp.example/hosts", name)
	case domain == "kubernetes.io" && path != "legacy-unknown":
		return fmt.Errorf("%s does not issue certificates of such servers: name another one, such as the signer of a Signer object", name)
	}
	return nil
}

func (i *IssuerSettings) validate() error {
	switch {
	case i == nil:
		return nil
	case i.Name == "":
		return errors.New(".issuer.name: missing: name an Issuer or a ClusterIssuer")
	case (i.Group == "" || i.Group == ofIssuers) && !slices.Contains([]string{"", "Issuer", "ClusterIssuer"}, i.Kind):
		return fmt.Errorf(".issuer.kind: %q is not Issuer or ClusterIssuer: set group too if it is a kind of another one", i.Kind)
	}
	return nil
}

// Hosts returns the names and addresses that the certificate has to have: the host of
// externalURL first.
func (s Settings) Hosts() []string { return append([]string{s.Host()}, s.Certificate.Names...) }
