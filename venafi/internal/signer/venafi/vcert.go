package venafi

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/Venafi/vcert/v5/pkg/certificate"
	"github.com/Venafi/vcert/v5/pkg/endpoint"
	"github.com/Venafi/vcert/v5/pkg/util"
)

// The calls in metrics.
const (
	callZone     = "read_zone_configuration"
	callRequest  = "request_certificate"
	callRetrieve = "retrieve_certificate"
	callPing     = "ping"
)

// newConnector returns a connector that makes its calls by a line.
func newConnector(t target, l *line) (connector, error) {
	switch t.Product {
	case TPP:
		return newTPP(t, l)
	case Cloud:
		return newCloud(t, l)
	case NGTS:
		return newNGTS(t, l)
	}
	return nil, fmt.Errorf("the product %q is not known", t.Product)
}

// orders is what vcert's connectors of all products have in common: certificates
// are requested and retrieved in the same way.
type orders struct {
	target
	endpoint.Connector
	line *line
	// reset, if not nil, is called before each request.
	reset func(*certificate.Request) error
}

func (c orders) request(o Order) (string, error) {
	req, err := c.build(o)
	if err != nil {
		return "", err
	}
	if c.reset != nil {
		if err := c.reset(req); err != nil {
			return "", err
		}
	}
	defer c.observe(callRequest)()
	id, err := c.Connector.RequestCertificate(req)
	if id != "" { // what else fails then is about the custom fields, and the certificate is ordered
		return id, nil
	}
	if err == nil {
		return "", errors.New("the server has accepted the request without an identifier for it")
	}
	return "", err
}

// build returns a request that the policy of the zone permits.
func (c orders) build(o Order) (*certificate.Request, error) {
	zone, err := c.zone()
	if err != nil {
		return nil, err
	}
	csr := o.CSR
	if csr.Subject.String() == "" {
		return nil, errors.New("Certificate requests submitted to Venafi issuers must have the 'commonName' field or at least one other subject field set.") //lint:ignore ST1005 clients of cert-manager.io know the text
	}
	name, err := o.ObjectName()
	if err != nil {
		return nil, err
	}
	req := certificate.NewRequest(&x509.Certificate{
		Subject: csr.Subject, DNSNames: csr.DNSNames, EmailAddresses: csr.EmailAddresses, IPAddresses: csr.IPAddresses, URIs: csr.URIs,
		SignatureAlgorithm: csr.SignatureAlgorithm, PublicKey: csr.PublicKey, Extensions: csr.Extensions,
	})
	req.ValidityDuration, req.IssuerHint, req.ChainOption = &o.Duration, util.IssuerHintAllIssuers, certificate.ChainOptionRootLast
	// Servers count clients by their origin, and support that of cert-manager.
	req.CustomFields = []certificate.CustomField{{Type: certificate.CustomFieldOrigin, Value: "cert-manager"}}
	for _, field := range o.Fields {
		req.CustomFields = append(req.CustomFields, certificate.CustomField{Type: certificate.CustomFieldPlain, Name: field.Name, Value: field.Value})
	}
	zone.UpdateCertificateRequest(req)
	if err := zone.ValidateCertificateRequest(req); err != nil {
		return nil, err
	}
	req.FriendlyName, req.CsrOrigin = name, certificate.UserProvidedCSR
	return req, req.SetCSR(o.PEM)
}

func (c orders) zone() (*endpoint.ZoneConfiguration, error) {
	defer c.observe(callZone)()
	return c.Connector.ReadZoneConfiguration()
}

func (c orders) retrieve(id string, o Order) ([]byte, error) {
	req := &certificate.Request{PickupID: id, CsrOrigin: certificate.UserProvidedCSR, ChainOption: certificate.ChainOptionRootLast}
	if err := req.SetCSR(o.PEM); err != nil {
		return nil, err
	}
	defer c.observe(callRetrieve)()
	got, err := c.Connector.RetrieveCertificate(req) // with no Timeout, it does not wait
	var pending endpoint.ErrCertificatePending
	switch {
	case errors.As(err, &pending) && isPending(c.line.result().status):
		return nil, &PendingError{Text: c.line.text(pending)}
	case err != nil:
		return nil, err
	}
	return []byte(strings.Join(append([]string{got.Certificate}, got.Chain...), "\n")), nil
}

// isPending reports whether a status means that a certificate does not exist yet. vcert
// reports the same for SaaS servers that answer with any error.
func isPending(status int) bool {
	return succeeded(status) || status == http.StatusConflict
}

func (c orders) ping() error {
	defer c.observe(callPing)()
	return c.Connector.Ping()
}

// client returns the HTTP client of the line. It follows no redirects: they would
// send credentials to another server.
func (l *line) client() *http.Client {
	return &http.Client{
		Transport:     l,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
