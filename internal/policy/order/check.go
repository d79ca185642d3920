package order

import (
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"

	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/pki"
)

// CheckAuthorization returns an error for an authorization that was not ordered:
// solvers write the records of the name that it is for, wherever that is.
func CheckAuthorization(spec acmev1.OrderSpec, said rfc8555.Authorization) error {
	ordered := NewOrder(spec, time.Time{}).Identifiers
	if !slices.ContainsFunc(ordered, func(id rfc8555.Identifier) bool {
		if ip := net.ParseIP(id.Value); ip != nil {
			return ip.Equal(net.ParseIP(said.Identifier.Value))
		}
		name, wildcard := strings.CutPrefix(id.Value, "*.")
		return strings.EqualFold(name, said.Identifier.Value) && (wildcard || !said.Wildcard)
	}) {
		return fmt.Errorf("the CA wants to validate %q, which was not ordered", domainSaid(said))
	}
	return nil
}

// CheckCertificate returns an error for a chain that is not for the request, or
// is not a chain.
func CheckCertificate(chain []*x509.Certificate, csrDER []byte, now time.Time) error {
	csr, err := pki.ParseRequestDER(csrDER)
	if err != nil {
		return err
	}
	accepted, err := pki.AcceptChain(chain, pki.Wanted{Key: csr.PublicKey, CA: true}, now)
	if err != nil {
		return err
	}
	if first := accepted.Certificates[0]; !first.Equal(chain[0]) && !pki.IsTwin(first, chain[0]) {
		return fmt.Errorf("its first certificate belongs to %q and is not the requested one", chain[0].Subject)
	}
	return nil
}

// IsPreferred reports whether a chain leads to the issuer with this common name.
func IsPreferred(chain []*x509.Certificate, name string) bool {
	return len(chain) > 0 && chain[len(chain)-1].Issuer.CommonName == name
}
