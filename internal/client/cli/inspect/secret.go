// Package inspect reads the Secrets of Certificates, and certificates, for people.
package inspect

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/pki"
)

// Result is the outcome of a check of a Secret.
type Result string

// The results. Unknown means that the Secret does not contain the answer.
const (
	Good    Result = "ok"
	Bad     Result = "bad"
	Unknown Result = "unknown"
)

// Check is a check of a Secret.
type Check struct {
	Name    string `json:"name"`
	Result  Result `json:"result"`
	Message string `json:"message"`
}

// Contents are the contents of the Secret of a Certificate, except its key.
type Contents struct {
	// Chain is tls.crt, the certificate first; CA is ca.crt.
	Chain, CA []*x509.Certificate
	Checks    []Check
}

// caKey is the key of the CA in the Secret of a Certificate.
const caKey = "ca.crt"

// Secret reads a Secret and checks it at a time. system holds the roots that this
// computer trusts, or nil if they are unknown. Secret returns an error if the Secret
// contains no readable certificate.
func Secret(secret *corev1.Secret, system *x509.CertPool, now time.Time) (*Contents, error) {
	data := secret.Data[corev1.TLSCertKey]
	if len(data) == 0 {
		return nil, fmt.Errorf("the Secret has no %s: it has %s", corev1.TLSCertKey, keysOf(secret))
	}
	chain, err := pki.ParseBundle(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", corev1.TLSCertKey, err)
	}
	c := &Contents{Chain: chain}
	c.Checks = append(c.Checks, c.checkTime(now), c.checkKey(secret.Data[corev1.TLSPrivateKeyKey]), c.checkOrder(), c.checkCA(secret.Data[caKey], now))
	if system != nil {
		c.Checks = append(c.Checks, c.checkSystem(system, now))
	}
	return c, nil
}

// keysOf lists the keys of a Secret's data.
func keysOf(secret *corev1.Secret) string {
	var keys []string
	for key := range secret.Data {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	if len(keys) == 0 {
		return "no data"
	}
	return strings.Join(keys, ", ")
}

func (c *Contents) leaf() *x509.Certificate { return c.Chain[0] }

func (c *Contents) checkTime(now time.Time) Check {
	check := Check{Name: "valid now", Result: Good, Message: "until " + c.leaf().NotAfter.UTC().Format(time.RFC3339)}
	switch {
	case now.Before(c.leaf().NotBefore):
		check.Result, check.Message = Bad, "it begins at "+c.leaf().NotBefore.UTC().Format(time.RFC3339)
	case now.After(c.leaf().NotAfter):
		check.Result, check.Message = Bad, "it expired at "+c.leaf().NotAfter.UTC().Format(time.RFC3339)
	}
	return check
}

// checkKey checks whether the key is the certificate's. It shows neither the
// key nor details of an error in it.
func (c *Contents) checkKey(data []byte) Check {
	check := Check{Name: "key fits", Result: Good, Message: corev1.TLSPrivateKeyKey + " is the certificate's"}
	if len(data) == 0 {
		check.Result, check.Message = Bad, "there is no "+corev1.TLSPrivateKeyKey
		return check
	}
	key, err := pki.ParsePrivateKey(data)
	switch {
	case err != nil:
		check.Result, check.Message = Bad, corev1.TLSPrivateKeyKey+" is not a private key in PEM"
	case !pki.SameKey(key.Public(), c.leaf().PublicKey):
		check.Result, check.Message = Bad, corev1.TLSPrivateKeyKey+" is of another certificate"
	}
	return check
}

// checkOrder checks the order of the chain. Servers send tls.crt unchanged, and clients
// expect each certificate to be followed by its issuer's (RFC 8446 4.4.2). Clients accept
// another certificate of the same CA in between.
func (c *Contents) checkOrder() Check {
	for i := 1; i < len(c.Chain); i++ {
		if err := c.Chain[i-1].CheckSignatureFrom(c.Chain[i]); err != nil && !pki.IsTwin(c.Chain[i-1], c.Chain[i]) {
			return Check{"chain in order", Bad, fmt.Sprintf("certificate %d of %s is not signed by the next one", i, corev1.TLSCertKey)}
		}
	}
	return Check{"chain in order", Good, fmt.Sprintf("%d in %s", len(c.Chain), corev1.TLSCertKey)}
}

func (c *Contents) checkCA(data []byte, now time.Time) Check {
	const name = "leads to ca.crt"
	if len(data) == 0 {
		return Check{name, Unknown, "no ca.crt: the issuer has not provided one"}
	}
	ca, err := pki.ParseBundle(data)
	if err != nil {
		return Check{name, Bad, fmt.Sprintf("reading ca.crt: %v", err)}
	}
	c.CA = ca
	trusted := x509.NewCertPool()
	for _, root := range ca {
		trusted.AddCert(root)
	}
	switch err := c.verify(trusted, now); {
	case errors.As(err, &x509.UnhandledCriticalExtension{}):
		return Check{name, Unknown, "a CA has an unknown critical extension, such as constraints on directory names: check with openssl verify"}
	case err != nil:
		return Check{name, Bad, err.Error()}
	}
	return Check{name, Good, "clients that trust it trust the certificate"}
}

func (c *Contents) checkSystem(system *x509.CertPool, now time.Time) Check {
	const name = "trusted here"
	if err := c.verify(system, now); err != nil {
		return Check{name, Unknown, "not by this computer: " + err.Error()}
	}
	return Check{name, Good, "by this computer's own roots"}
}

// verify verifies the chain for any usage, as only the users of the certificate
// know which usage counts.
func (c *Contents) verify(trusted *x509.CertPool, now time.Time) error {
	between := x509.NewCertPool()
	for _, cert := range c.Chain[1:] {
		between.AddCert(cert)
	}
	_, err := c.leaf().Verify(x509.VerifyOptions{
		Roots: trusted, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	return err
}

// Text returns the report about the Secret as text.
func (c *Contents) Text(now time.Time) string {
	p := &print.Page{}
	p.Line(c.verdict())
	p.Section("Certificate", Describe(c.leaf()).Rows(now))
	p.Section("Checks", c.checkRows())
	p.Section("Chain in tls.crt", chainRows(c.Chain, now))
	p.Section("CA in ca.crt", chainRows(c.CA, now))
	return p.String()
}

func (c *Contents) verdict() string {
	if check, bad := c.bad(); bad {
		return "The certificate is not good: " + check.Message
	}
	return "The certificate is good"
}

// bad returns the first check that is bad.
func (c *Contents) bad() (first Check, found bool) {
	for _, check := range c.Checks {
		if check.Result == Bad {
			return check, true
		}
	}
	return Check{}, false
}

func (c *Contents) checkRows() [][]string {
	var rows [][]string
	for _, check := range c.Checks {
		rows = append(rows, []string{string(check.Result), check.Name, check.Message})
	}
	return rows
}

func chainRows(certs []*x509.Certificate, now time.Time) [][]string {
	var rows [][]string
	for _, cert := range certs {
		rows = append(rows, []string{print.OrNone(cert.Subject.String()), "issued by " + print.OrNone(cert.Issuer.String()), "until " + When(cert.NotAfter, now)})
	}
	return rows
}

// When returns the text of a time, and how far from now it is.
func When(t, now time.Time) string {
	distance := print.Ago(now, t)
	if t.After(now) {
		distance = "in " + print.Span(t.Sub(now))
	}
	return fmt.Sprintf("%s (%s)", t.UTC().Format(time.RFC3339), distance)
}

func yesNo(so bool) string {
	if so {
		return "yes"
	}
	return "no"
}
