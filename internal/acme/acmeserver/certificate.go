package acmeserver

import (
	"net/http"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// mediaTypeChain is that of certificates (RFC 8555 section 9.1).
const mediaTypeChain = "application/pem-certificate-chain"

// certificates hands out, revokes and renews certificates.
type certificates struct {
	store  *store
	events eventRecorder
}

// certificate answers with a chain of an order, and links to its other chains (RFC 8555
// section 7.4.2). It ignores the header Accept: only one media type exists, and is more
// useful than an error to a client that asks for another one (RFC 9110 section 12.4.1).
func (s *certificates) certificate(c *call) (*answer, error) {
	if !c.message.IsPostAsGet() {
		return nil, payloadNotEmpty()
	}
	o, err := s.store.ownOrder(c)
	if err != nil {
		return nil, err
	}
	chains, asked := acmeorder.Chains(o), c.chainNumber()
	if acmeorder.OrderState(o, c.now) != rfc8555.StateValid || asked < 0 || asked >= len(chains) {
		return nil, notFound()
	}
	a := &answer{status: http.StatusOK, media: mediaTypeChain, body: []byte(chains[asked])}
	for i := range chains {
		if i != asked {
			a.links = append(a.links, link(c.chainURL(o.Name, i), "alternate"))
		}
	}
	return a, nil
}

// renewedEnd returns the end of the certificate that an order replaces, zero if it
// replaces none.
func (s *orders) renewedEnd(c *call, o *v1alpha1.AcmeOrder) (time.Time, error) {
	if o.Spec.Replaces == "" {
		return time.Time{}, nil
	}
	old, err := s.store.issued(c.ctx, c.endpointName, byCertID, o.Spec.Replaces)
	if err != nil || old == nil || old.Spec.Account != c.account.Name {
		return time.Time{}, err
	}
	return old.Status.Certificate.NotAfter.Time, nil
}

// revokeCert revokes a certificate (RFC 8555 section 7.6).
func (s *certificates) revokeCert(c *call) (*answer, error) {
	r, digest, err := readRevocation(c)
	if err != nil {
		return nil, err
	}
	if r.Account != "" {
		if r.Orders, err = s.store.ordersOf(c.ctx, c.account); err != nil {
			return nil, err
		}
	}
	found, err := s.store.issued(c.ctx, c.endpointName, byDigest, digest)
	if err != nil {
		return nil, err
	}
	if found == nil {
		_, p := acmeorder.Revoke(r, c.endpoint.Spec(), c.now)
		return nil, asError(p)
	}
	c.order = found.Name
	read := func() (*v1alpha1.AcmeOrder, error) { return s.store.order(c.ctx, found.Namespace, found.Name) }
	o, err := s.store.changeOrder(c.ctx, read, func(o *v1alpha1.AcmeOrder) (*v1alpha1.AcmeOrderStatus, error) {
		r.Order = o
		status, p := acmeorder.Revoke(r, c.endpoint.Spec(), c.now)
		if p != nil || c.endpoint.Spec().Revocation != v1alpha1.AcmeRevocationPublish {
			return status, asError(p)
		}
		return status, s.store.publishRevocation(c.ctx, o, status.Certificate.Revoked, r.Certificate)
	})
	if err != nil {
		s.events.refusedBy(found, "Revoke", err)
		return nil, err
	}
	s.events.revoked(o, c.endpoint.Spec().Revocation == v1alpha1.AcmeRevocationPublish)
	return &answer{status: http.StatusOK}, nil
}

func readRevocation(c *call) (r acmeorder.Revocation, digest string, err error) {
	var asked struct {
		Certificate string `json:"certificate"`
		Reason      *int   `json:"reason"`
	}
	if p := c.message.Decode(&asked); p != nil {
		return r, "", p
	}
	der, err := c.decode(asked.Certificate)
	if err != nil {
		return r, "", malformed("certificate is not the base64url encoding, without padding, of a certificate in DER")
	}
	cert, p := acmeorder.ParseRevoked(der)
	if p != nil {
		return r, "", p
	}
	r = acmeorder.Revocation{Certificate: der, Reason: asked.Reason}
	if c.account != nil {
		r.Account = c.account.Name
	} else {
		r.Key = c.message.Key.Public()
	}
	return r, pki.Fingerprint(cert), nil
}

// renewalInfo answers when a certificate should be renewed (RFC 9773 section 4.1).
func (s *certificates) renewalInfo(c *call) (*answer, error) {
	keyID, _, err := pki.ParseCertID(c.args[0])
	if err != nil {
		return nil, malformed("the identifier of the certificate is wrong: %v", err)
	}
	orders, err := s.store.list(c.ctx, byCertID, c.args[0])
	if err != nil {
		return nil, err
	}
	for _, o := range orders {
		if o.Spec.Endpoint != c.endpointName || !c.now.Before(o.Status.Certificate.NotAfter.Time) {
			continue
		}
		signers, err := s.store.signersBefore(c.ctx, keyID)
		if err != nil {
			return nil, err
		}
		causes := acmeorder.CausesOf(keyID, signers)
		w := acmeorder.RenewalWindow(o.Status.Certificate, c.endpoint.Object(), causes, c.now)
		a := ok(renewalView{Window: windowView{w.Start.UTC(), w.End.UTC()}, ExplanationURL: w.ExplanationURL})
		a.retryAfter, a.cache = w.RetryIn, "max-age=600"
		return a, nil
	}
	return nil, notFound()
}

type renewalView struct {
	Window         windowView `json:"suggestedWindow"`
	ExplanationURL string     `json:"explanationURL,omitempty"`
}

type windowView struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}
