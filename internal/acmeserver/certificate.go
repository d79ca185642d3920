package acmeserver

import (
	"net/http"
	"strconv"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// mediaTypeChain is that of certificates (RFC 8555 section 9.1).
const mediaTypeChain = "application/pem-certificate-chain"

// certificate answers with a chain of an order, and links to the others (RFC 8555
// section 7.4.2). The header Accept does not count: there is one media type, and a client that
// asks for another one is better off with it than with nothing (RFC 9110 section 12.4.1).
func (x *exchange) certificate() (*answer, error) {
	if !x.message.IsPostAsGet() {
		return nil, payloadNotEmpty()
	}
	o, err := x.ownOrder()
	if err != nil {
		return nil, err
	}
	chains, asked := acmeorder.Chains(o), x.chainNumber()
	if acmeorder.OrderState(o, x.now) != rfc8555.StateValid || asked < 0 || asked >= len(chains) {
		return nil, notFound()
	}
	a := &answer{status: http.StatusOK, media: mediaTypeChain, body: []byte(chains[asked])}
	for i := range chains {
		if i != asked {
			a.links = append(a.links, link(x.chainURL(o.Name, i), "alternate"))
		}
	}
	return a, nil
}

// chainNumber returns the number of the chain in the path of a request: 0 for the
// default, -1 if there is none of that name.
func (x *exchange) chainNumber() int {
	if len(x.args) < 2 {
		return 0
	}
	n, err := strconv.Atoi(x.args[1])
	if err != nil || n < 1 || strconv.Itoa(n) != x.args[1] {
		return -1
	}
	return n
}

func (x *exchange) chainURL(order string, n int) string {
	if n == 0 {
		return x.url("cert", order)
	}
	return x.url("cert", order, strconv.Itoa(n))
}

// renewedEnd returns the end of the certificate that an order replaces, zero if it
// replaces none.
func (x *exchange) renewedEnd(o *v1alpha1.AcmeOrder) (time.Time, error) {
	if o.Spec.Replaces == "" {
		return time.Time{}, nil
	}
	old, err := x.store.issued(x.ctx, x.endpointName, byCertID, o.Spec.Replaces)
	if err != nil || old == nil || old.Spec.Account != x.account.Name {
		return time.Time{}, err
	}
	return old.Status.Certificate.NotAfter.Time, nil
}

// revokeCert records the revocation of a certificate (RFC 8555 section 7.6).
func (x *exchange) revokeCert() (*answer, error) {
	r, digest, err := x.readRevocation()
	if err != nil {
		return nil, err
	}
	if r.Account != "" {
		if r.Orders, err = x.store.ordersOf(x.ctx, x.account); err != nil {
			return nil, err
		}
	}
	found, err := x.store.issued(x.ctx, x.endpointName, byDigest, digest)
	if err != nil {
		return nil, err
	}
	if found == nil {
		_, p := acmeorder.Revoke(r, x.endpoint.Spec(), x.now)
		return nil, asError(p)
	}
	x.order = found.Name
	read := func() (*v1alpha1.AcmeOrder, error) { return x.store.order(x.ctx, found.Namespace, found.Name) }
	o, err := x.store.changeOrder(x.ctx, read, func(o *v1alpha1.AcmeOrder) (*v1alpha1.AcmeOrderStatus, error) {
		r.Order = o
		status, p := acmeorder.Revoke(r, x.endpoint.Spec(), x.now)
		return status, asError(p)
	})
	if err != nil {
		x.refusedBy(found, "Revoke", err)
		return nil, err
	}
	x.revoked(o)
	return &answer{status: http.StatusOK}, nil
}

func (x *exchange) readRevocation() (r acmeorder.Revocation, digest string, err error) {
	var asked struct {
		Certificate string `json:"certificate"`
		Reason      *int   `json:"reason"`
	}
	if p := x.message.Decode(&asked); p != nil {
		return r, "", p
	}
	der, err := x.decode(asked.Certificate)
	if err != nil {
		return r, "", malformed("certificate is not the base64url encoding, without padding, of a certificate in DER")
	}
	cert, p := acmeorder.ParseRevoked(der)
	if p != nil {
		return r, "", p
	}
	r = acmeorder.Revocation{Certificate: der, Reason: asked.Reason}
	if x.account != nil {
		r.Account = x.account.Name
	} else {
		r.Key = x.message.Key.Public()
	}
	return r, pki.Fingerprint(cert), nil
}

// renewalInfo says when a certificate should be renewed (RFC 9773 section 4.1).
func (x *exchange) renewalInfo() (*answer, error) {
	keyID, _, err := pki.ParseCertID(x.args[0])
	if err != nil {
		return nil, malformed("the identifier of the certificate is wrong: %v", err)
	}
	orders, err := x.store.list(x.ctx, byCertID, x.args[0])
	if err != nil {
		return nil, err
	}
	for _, o := range orders {
		if o.Spec.Endpoint != x.endpointName || !x.now.Before(o.Status.Certificate.NotAfter.Time) {
			continue
		}
		signers, err := x.store.signersBefore(x.ctx, keyID)
		if err != nil {
			return nil, err
		}
		causes := acmeorder.CausesOf(keyID, signers)
		w := acmeorder.RenewalWindow(o.Status.Certificate, x.endpoint.Object(), causes, x.now)
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
