package expression

import (
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/netip"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

// View is the part of a request that expressions can read. Its objects are not modified.
type View struct {
	Request request.Request
	// Requester is the user; for pods their service account.
	Requester request.Requester
	// PodSpec adds pod.spec, whose conversion takes time.
	PodSpec bool
	// Policies adds the variables that only policies have.
	Policies *PolicyView
	// Order is the view of rules of ACME endpoints, which see nothing else.
	Order *OrderView
}

// OrderView is a new order of an ACME client.
type OrderView struct {
	Identifiers []OrderedIdentifier
	// Account is the name of the account, ExternalKey the namespace and name of its
	// external key, empty if it has none.
	Account, ExternalKey      string
	Namespace, ServiceAccount string
	Profile                   string
	Now                       time.Time
}

// OrderedIdentifier is a name or an address. The value of a wildcard is without
// "*.".
type OrderedIdentifier struct {
	Type, Value string
	Wildcard    bool
}

// PolicyView is the part of the view for policies alone.
type PolicyView struct {
	Origin    string
	Namespace *metav1.ObjectMeta
	Node      *corev1.Node
	Owner     *metav1.ObjectMeta
	// Order is the order of an ACME client that the request was made for; nil if
	// there is none.
	Order *v1alpha1.ProvenOrder
	// Renews is the request that this one renews; nil if it renews none.
	Renews      *Renewed
	Certificate Content
	// SignerName is the name of the signer in policies.
	SignerName string
	// Unknown are the facts that are not known yet, by the variable or the field
	// of a variable (request.origin) that needs them.
	Unknown map[string]string
}

// Renewed is an earlier request that people have approved.
type Renewed struct {
	// NotAfter is the end of its certificate.
	NotAfter time.Time
	// SameKey: it has the key of the request that renews it.
	SameKey bool
	// ApprovedBy are the usernames of its approvers.
	ApprovedBy []string
}

// Content is the content of a request or of a certificate.
type Content struct {
	Subject     []Attribute
	SubjectText string
	DNSNames    []string
	// IPAddresses are in their canonical form; IPv4 in IPv6 form is IPv4.
	IPAddresses, URIs, EmailAddresses []string
	OtherNames                        []pki.OtherName
	Usages                            []string
	IsCA                              bool
	// PathLength is the number of CAs below; nil is any number.
	PathLength *int
	Key        crypto.PublicKey
	// Lifetime is nil if it is not known.
	Lifetime *time.Duration
}

// Attribute is one of a subject.
type Attribute struct{ OID, Value string }

// The types of the attributes with fields of their own (RFC 4519).
var attributeFields = map[string]string{
	"2.5.4.3": "commonNames", "2.5.4.5": "serialNumbers", "2.5.4.6": "countries", "2.5.4.7": "localities", "2.5.4.8": "provinces",
	"2.5.4.9": "streetAddresses", "2.5.4.10": "organizations", "2.5.4.11": "organizationalUnits", "2.5.4.17": "postalCodes",
}

// RequestContent returns what a request asks for.
func RequestContent(r *request.Request) Content {
	c := Content{Usages: r.Usages, IsCA: r.AsksForCA(), Key: r.Key}
	asked := r.PKCS10
	if asked == nil {
		return c
	}
	c.readSubject(asked.Subject)
	c.DNSNames, c.EmailAddresses, c.OtherNames = asked.DNSNames, asked.EmailAddresses, asked.OtherNames.Value
	c.IPAddresses, c.URIs = addresses(asked.IPAddresses), uriTexts(asked.URIs)
	if asked.CA.Present && asked.CA.Value.MaxPathLen >= 0 {
		c.PathLength = new(asked.CA.Value.MaxPathLen)
	}
	return c
}

// CertificateContent returns the content of a certificate, except for its usages and its
// lifetime. others are its names of the type otherName.
func CertificateContent(cert *x509.Certificate, others []pki.OtherName) Content {
	c := Content{
		Key: cert.PublicKey, IsCA: cert.IsCA || cert.KeyUsage&(x509.KeyUsageCertSign|x509.KeyUsageCRLSign) != 0,
		DNSNames: cert.DNSNames, EmailAddresses: cert.EmailAddresses, OtherNames: others,
		IPAddresses: addresses(cert.IPAddresses), URIs: uriTexts(cert.URIs),
	}
	c.readSubject(cert.Subject)
	if cert.MaxPathLen > 0 || cert.MaxPathLen == 0 && cert.MaxPathLenZero {
		c.PathLength = new(cert.MaxPathLen)
	}
	return c
}

func (c *Content) readSubject(name pkix.Name) {
	for _, a := range name.Names {
		text, _ := a.Value.(string)
		c.Subject = append(c.Subject, Attribute{a.Type.String(), text})
	}
	c.SubjectText = name.String()
}

func addresses(ips []net.IP) []string {
	var texts []string
	for _, ip := range ips {
		address, _ := netip.AddrFromSlice(ip)
		texts = append(texts, address.Unmap().String())
	}
	return texts
}

func uriTexts(uris []*url.URL) []string {
	var texts []string
	for _, uri := range uris {
		texts = append(texts, uri.String())
	}
	return texts
}
