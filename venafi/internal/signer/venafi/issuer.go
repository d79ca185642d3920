package venafi

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/certplane/certplane/internal/issuing/signer/outbound"
)

// Product is a product of the Certificate Manager family. Each has a different API.
type Product string

// The products, by their fields in the spec of an issuer.
const (
	TPP   Product = "tpp"   // self-hosted
	Cloud Product = "cloud" // SaaS
	NGTS  Product = "ngts"  // Next-Gen Trust Security
)

// Issuer contains the settings of an issuer for its server.
type Issuer struct {
	// UID and Generation identify the issuer and the version of its spec.
	UID        string
	Generation int64
	// SecretNamespace is the namespace of its Secrets.
	SecretNamespace string
	// Loopback is set if the server may have a loopback address.
	Loopback bool

	Product Product
	// Zone is a policy folder (TPP), an application and the alias of a template with a
	// backslash between them (Cloud), or a template (NGTS).
	Zone string
	// URL is the base URL; empty means the default URL of the product, which TPP does not
	// have.
	URL string
	// Credentials is the name of the Secret with the credentials. APIKey is the key
	// in it, for Cloud; empty means api-key.
	Credentials, APIKey string
	// CABundle contains the CAs of the server in PEM. If it is empty, CABundleRef refers to
	// them; without both, the CAs of this host are trusted. For TPP.
	CABundle    []byte
	CABundleRef *SecretKey
	// TokenURL grants tokens for Tenant, for NGTS. Empty means the default URL of the
	// product.
	TokenURL, Tenant string
}

// SecretKey is a key of a Secret.
type SecretKey struct{ Name, Key string }

// Secret is the content of a Secret.
type Secret struct {
	Data map[string][]byte
	// Version is another one after each change.
	Version string
}

// Access returns a Secret of an issuer, with the identity of the caller. Its error
// is shown to users.
type Access func(ctx context.Context, name string) (Secret, error)

// CustomField is a field with which a server labels a certificate.
type CustomField struct{ Name, Value string }

// Order is a certificate that a server is to issue.
type Order struct {
	// ID identifies the request.
	ID string
	// PEM is the unchanged PKCS#10 request, CSR its content.
	PEM []byte
	CSR *x509.CertificateRequest
	// Duration is the requested lifetime.
	Duration time.Duration
	Fields   []CustomField
}

// ObjectName returns the name that the certificate gets on the server. Two
// requests with the same name in one zone are for the same object.
func (o Order) ObjectName() (string, error) {
	name := ""
	switch csr := o.CSR; {
	case csr.Subject.CommonName != "":
		name = csr.Subject.CommonName
	case len(csr.DNSNames) > 0:
		name = csr.DNSNames[0]
	case len(csr.URIs) > 0:
		name = csr.URIs[0].String()
	case len(csr.EmailAddresses) > 0:
		name = csr.EmailAddresses[0]
	case len(csr.IPAddresses) > 0:
		name = csr.IPAddresses[0].String()
	default:
		return "", errors.New("certificate request contains no Common Name, DNS Name, nor URI SAN, at least one must be supplied to be used as the certificate objects name")
	}
	// A backslash separates folders: the name must not lead to another one.
	if strings.ContainsRune(name, '\\') || strings.ContainsFunc(name, unicode.IsControl) {
		return "", fmt.Errorf("the name %q cannot be the name of an object on the server: it contains a backslash or a control character", name)
	}
	return name, nil
}

// Place identifies the object on the server that a request is for. Only one
// request for it may be under way: the next one resets it.
type Place struct{ Server, Zone, Name string }

// PlaceOf returns the place of an order; ok is false if the server keeps requests apart, or
// the order has no usable name.
func (i Issuer) PlaceOf(o Order) (at Place, ok bool) {
	name, err := o.ObjectName()
	if i.Product != TPP || err != nil {
		return Place{}, false
	}
	// The server does not distinguish upper and lower case.
	server := strings.TrimPrefix(strings.TrimPrefix(strings.ToLower(i.URL), "http://"), "https://")
	zone := strings.TrimPrefix(strings.ToLower(i.Zone), `\ved\policy`)
	return Place{
		Server: strings.TrimSuffix(strings.TrimSuffix(server, "/"), "/vedsdk"),
		Zone:   strings.Trim(zone, `\`), Name: strings.ToLower(name),
	}, true
}

// credential is a secret value that no log and no error shows.
type credential = outbound.Credential
