package acmeserver

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmeserver/jws"
	"github.com/certplane/certplane/internal/acme/acmeserver/nonce"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// authenticator verifies messages and finds the accounts that have signed them.
type authenticator struct {
	store           *store
	nonces          *nonce.Nonces
	redeemed        *prometheus.CounterVec // nonces, by outcome
	externalURL     string
	formerURLs      []string
	redeemElsewhere func(ctx context.Context, process nonce.Instance, text string) bool
	verifying       *semaphore.Weighted // limits how many signatures are verified at a time
}

// verificationsPerCPU is how many signatures are verified at a time for each CPU.
const verificationsPerCPU = 4

func newAuthenticator(cfg Config, store *store, nonces *nonce.Nonces, redeemed *prometheus.CounterVec) *authenticator {
	return &authenticator{
		store: store, nonces: nonces, redeemed: redeemed, externalURL: cfg.ExternalURL, formerURLs: cfg.FormerURLs, redeemElsewhere: cfg.RedeemElsewhere,
		verifying: semaphore.NewWeighted(int64(verificationsPerCPU * runtime.GOMAXPROCS(0))),
	}
}

// authenticate verifies a message. The signature is checked before the nonce, so that a
// forged message spends none.
func (v *authenticator) authenticate(c *call, body []byte) error {
	options := c.options()
	options.CertificateKey = c.resource.signer == jws.Anybody
	var unverified *jws.Unverified
	var p *rfc8555.Problem
	// Keys of strangers are checked, which takes as long as a signature.
	if err := v.inTurn(c, func() { unverified, p = jws.Parse(body, c.resource.signer, options) }); err != nil || p != nil {
		return errors.Join(err, asError(p))
	}
	if unverified.Key != nil {
		c.cost = unverified.Key.Cost()
	}
	if err := v.verify(c, unverified); err != nil {
		return err
	}
	var former []string
	for _, base := range v.formerURLs {
		former = append(former, c.requestURL(base))
	}
	if p := c.message.CheckURL(c.requestURL(v.externalURL), former...); p != nil {
		return p
	}
	if err := v.redeem(c); err != nil {
		return err
	}
	c.authenticated = true
	if c.account == nil {
		return nil
	}
	return v.checkAccount(c)
}

// verify verifies the signature with the key of the message or of the account.
func (v *authenticator) verify(c *call, unverified *jws.Unverified) error {
	if unverified.KID == "" {
		return v.verifyWith(c, unverified, nil)
	}
	name, err := v.accountName(c, unverified.KID)
	if err != nil {
		return err
	}
	account, key, err := v.signer(c, name, c.resource.fresh)
	if err != nil {
		return err
	}
	if err := v.verifyWith(c, unverified, key); err != nil {
		// The key of the account may just have changed.
		latest, changed, again := v.signer(c, name, true)
		if again != nil || latest.Status.Key == account.Status.Key {
			return err
		}
		account, key = latest, changed
		if err := v.verifyWith(c, unverified, key); err != nil {
			return err
		}
	}
	c.account, c.fresh = account, c.resource.fresh
	if c.fresh || c.message.IsPostAsGet() {
		return nil
	}
	// Requests that change something need the stored account.
	latest, changed, err := v.signer(c, name, true)
	if err != nil {
		return err
	}
	c.account, c.fresh = latest, true
	if latest.Status.Key != account.Status.Key {
		return v.verifyWith(c, unverified, changed)
	}
	return nil
}

func (v *authenticator) verifyWith(c *call, unverified *jws.Unverified, key *jws.Key) error {
	var message *jws.Message
	var p *rfc8555.Problem
	if err := v.inTurn(c, func() { message, p = unverified.Verify(key) }); err != nil || p != nil {
		return errors.Join(err, asError(p))
	}
	c.message = message
	return nil
}

// inTurn runs work that is expensive for the processor. The number of concurrent calls is
// limited.
func (v *authenticator) inTurn(c *call, do func()) error {
	ctx, cancel := context.WithTimeout(c.r.Context(), verificationTimeout)
	defer cancel()
	if v.verifying.Acquire(ctx, 1) != nil {
		return unavailable(c.now, "too many messages are being verified")
	}
	defer v.verifying.Release(1)
	do()
	return nil
}

// accountName returns the name of the account with a URL.
func (v *authenticator) accountName(c *call, kid string) (string, error) {
	for _, base := range append([]string{v.externalURL}, v.formerURLs...) {
		if name, ok := strings.CutPrefix(kid, base+root+c.endpointName+"/acct/"); ok {
			return name, nil
		}
	}
	return "", malformed("the kid %s is not the URL of an account of this directory", rfc8555.Quote(kid))
}

// signer returns an account and its key in force.
func (v *authenticator) signer(c *call, name string, fresh bool) (*v1alpha1.AcmeAccount, *jws.Key, error) {
	account, err := v.store.account(c.ctx, name, fresh)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, nil, err
	}
	none := problem(http.StatusBadRequest, rfc8555.ProblemAccountDoesNotExist, "there is no such account")
	if err != nil || account.Spec.Endpoint != c.endpointName || account.Status.Key == "" {
		return nil, nil, none
	}
	key, err := v.store.key(c.ctx, account.Status.Key)
	if apierrors.IsNotFound(err) {
		return nil, nil, none // the client registers again
	}
	return account, key, err
}

// redeem spends the nonce of the message.
func (v *authenticator) redeem(c *call) error {
	text, p := c.message.Nonce()
	if p != nil {
		return p
	}
	outcome, process := v.nonces.Redeem(text)
	if outcome == nonce.Foreign && v.redeemElsewhere != nil {
		ctx, cancel := context.WithTimeout(c.ctx, peerTimeout)
		defer cancel()
		if v.redeemElsewhere(ctx, process, text) {
			outcome = nonce.Valid
		}
	}
	v.redeemed.WithLabelValues(string(outcome)).Inc()
	if outcome != nonce.Valid {
		return problem(http.StatusBadRequest, rfc8555.ProblemBadNonce, "the nonce is not good: use the one of this answer")
	}
	return nil
}

// checkAccount refuses accounts that are not in force.
func (v *authenticator) checkAccount(c *call) error {
	facts, err := v.store.facts(c.ctx, c.account, c.fresh)
	if err != nil {
		return err
	}
	c.facts = facts
	return asError(facts.Problem())
}
