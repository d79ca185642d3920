package venafi

import (
	"errors"
	"fmt"
	"time"

	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/names"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/pki"
)

// skew is the permitted difference between the server's clock and ours.
const skew = 5 * time.Minute

// accept checks a server's answer to a request. The answer can belong to another request,
// because other clients may write the annotation with the identifier. A certificate with
// less than was requested is issued with a warning: the policy of the server decides that.
func (a *attempt) accept(bundle []byte) (*signer.Issued, error) {
	certs, err := pki.ParseCertificates(bundle)
	if err != nil {
		return nil, issuing.Permanent(a.parse, a.parsed, err)
	}
	refuse := func(format string, args ...any) error {
		return issuing.Permanent(a.retrieve, a.retrieveText, fmt.Errorf(format, args...))
	}
	chain, err := pki.AcceptChain(certs, pki.Wanted{Key: a.csr.PublicKey, CA: a.req.Terms.IsCA}, a.now)
	switch {
	case errors.Is(err, pki.ErrOtherKey), errors.Is(err, pki.ErrUnwantedCA):
		return nil, refuse("the server returned a certificate that is not the requested one: %w", err)
	case err != nil:
		return nil, issuing.Permanent(a.parse, a.parsed, err)
	}
	leaf := chain.Certificates[0]
	if !a.now.Before(leaf.NotAfter) {
		return nil, refuse("the server returned a certificate that has expired on %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	missing, err := names.Compare(leaf, a.csr)
	if err != nil {
		return nil, refuse("the server returned a certificate with more than was asked for: %w", err)
	}
	issued := &signer.Issued{Certificate: leaf, PEM: pki.EncodeCertificates(chain.Certificates...)}
	if chain.CA != nil {
		issued.CA = pki.EncodeCertificates(chain.CA)
	}
	if err := a.Rules.Honoured.Check(chain.Whole()); err != nil {
		return nil, refuse("%w", err)
	}
	warn := func(reason, format string, args ...any) {
		issued.Warnings = append(issued.Warnings, signer.Warning{Reason: reason, Message: fmt.Sprintf(format, args...)})
	}
	if cut := a.now.Add(a.order.Duration).Sub(leaf.NotAfter); cut > min(skew, a.order.Duration/10) {
		warn(issuing.WarningShortened, "The certificate ends on %s, %v earlier than requested: change the policy of the zone, or request less",
			leaf.NotAfter.UTC().Format(time.RFC3339), cut.Round(time.Second))
	}
	if len(missing) > 0 {
		warn(issuing.WarningBadConfig, "The certificate lacks names of the request (%s): change the policy of the zone", names.List(missing))
	}
	if a.req.Terms.IsCA && !leaf.IsCA {
		warn(issuing.WarningBadConfig, "The request is for a CA, but the zone issues no CA certificates")
	}
	return issued, nil
}
