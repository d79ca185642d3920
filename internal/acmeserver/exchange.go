package acmeserver

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acmeserver/jws"
	"github.com/certplane/certplane/internal/acmeserver/nonce"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// The limits of a request in time: handling it, and waiting for a turn to verify
// its signature.
const (
	handlingTimeout     = 28 * time.Second
	verificationTimeout = 2 * time.Second
	peerTimeout         = 500 * time.Millisecond
)

// exchange is one request while it is answered.
type exchange struct {
	*Server
	r      *http.Request
	w      http.ResponseWriter
	header http.Header
	// ctx outlives the connection: what was begun is finished.
	ctx     context.Context
	now     time.Time
	address netip.Addr
	shared  bool // by many clients

	endpointName string
	resource     *resource
	args         []string
	endpoint     *acmeorder.Endpoint

	message *jws.Message
	// account is who has signed; nil if the message has the key itself.
	account       *v1alpha1.AcmeAccount
	authenticated bool
	cost          int // of the signature of a stranger, in that of the usual keys
	facts         acmeorder.AccountFacts
	fresh         bool

	// order and problem are for the log.
	order   string
	problem *rfc8555.Problem
}

func (s *Server) newExchange(ctx context.Context, w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{Server: s, r: r, w: w, header: w.Header(), ctx: ctx, now: s.Now()}
	x.address = connectionAddress(r)
	if s.Address != nil {
		x.address, x.shared = s.Address(r)
	}
	if below, ok := strings.CutPrefix(r.URL.EscapedPath(), root); ok {
		var rest string
		x.endpointName, rest, _ = strings.Cut(below, "/")
		x.resource, x.args = find(rest)
	}
	return x
}

func connectionAddress(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap().WithZone("")
}

// url returns a URL of the endpoint.
func (x *exchange) url(parts ...string) string {
	return x.ExternalURL + root + x.endpointName + "/" + strings.Join(parts, "/")
}

// findEndpoint looks the endpoint up. Of one that is not ready, only what needs no
// message is served.
func (x *exchange) findEndpoint() error {
	e, err := x.store.endpoint(x.ctx, x.endpointName)
	switch {
	case apierrors.IsNotFound(err):
		x.endpointName = ""
		return notFound()
	case err != nil:
		return err
	}
	x.endpoint = e
	if x.r.Method == http.MethodPost && !isReady(e.Object()) {
		return unavailable(x.now, "the endpoint is not ready")
	}
	return nil
}

// options are what the endpoint tolerates in messages.
func (x *exchange) options() jws.Options {
	tolerates := func(t v1alpha1.AcmeTolerance) bool { return slices.Contains(x.endpoint.Spec().Tolerate, t) }
	return jws.Options{
		MoreAlgorithms: tolerates(v1alpha1.AcmeTolerateMoreAlgorithms), LargeRSA: tolerates(v1alpha1.AcmeTolerateLargeRSA),
		ShortECDSASignatures: tolerates(v1alpha1.AcmeTolerateShortECDSASignatures),
	}
}

// mediaType is that of messages (RFC 8555 section 6.2).
const mediaType = "application/jose+json"

func (x *exchange) body() ([]byte, error) {
	given, _, err := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	switch encoding := x.r.Header.Get("Content-Encoding"); {
	case err != nil || given != mediaType:
		return nil, problem(http.StatusUnsupportedMediaType, rfc8555.ProblemMalformed, "the media type must be %s", mediaType)
	case encoding != "" && !strings.EqualFold(encoding, "identity"):
		return nil, problem(http.StatusUnsupportedMediaType, rfc8555.ProblemMalformed, "the content must have no encoding")
	}
	body, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, jws.MaxSize))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, problem(http.StatusRequestEntityTooLarge, rfc8555.ProblemMalformed, "the message is larger than %d bytes", jws.MaxSize)
	case err != nil:
		return nil, malformed("the message has not arrived whole")
	}
	return body, nil
}

// authenticate reads the message and finds out who has signed it. The signature is
// checked before the nonce, so that a forged message spends none.
func (x *exchange) authenticate() error {
	body, err := x.body()
	if err != nil {
		return err
	}
	options := x.options()
	options.CertificateKey = x.resource.signer == jws.Anybody
	var unverified *jws.Unverified
	var p *rfc8555.Problem
	// Keys of strangers are checked, which takes as long as a signature.
	if err := x.inTurn(func() { unverified, p = jws.Parse(body, x.resource.signer, options) }); err != nil || p != nil {
		return errors.Join(err, asError(p))
	}
	if unverified.Key != nil {
		x.cost = unverified.Key.Cost()
	}
	if err := x.verify(unverified); err != nil {
		return err
	}
	if p := x.message.CheckURL(x.requestURL(x.ExternalURL), x.formerURLs()...); p != nil {
		return p
	}
	if err := x.redeem(); err != nil {
		return err
	}
	x.authenticated = true
	if x.account == nil {
		return nil
	}
	return x.checkAccount()
}

// requestURL returns the URL of the request below a base. The path is as it was sent.
func (x *exchange) requestURL(base string) string {
	u := base + x.r.URL.EscapedPath()
	if x.r.URL.RawQuery != "" || x.r.URL.ForceQuery {
		u += "?" + x.r.URL.RawQuery
	}
	return u
}

func (x *exchange) formerURLs() []string {
	var urls []string
	for _, base := range x.FormerURLs {
		urls = append(urls, x.requestURL(base))
	}
	return urls
}

// verify verifies the signature with the key of the message or of the account.
func (x *exchange) verify(unverified *jws.Unverified) error {
	if unverified.KID == "" {
		return x.verifyWith(unverified, nil)
	}
	name, err := x.accountName(unverified.KID)
	if err != nil {
		return err
	}
	account, key, err := x.signer(name, x.resource.fresh)
	if err != nil {
		return err
	}
	if err := x.verifyWith(unverified, key); err != nil {
		// The account may have got another key just now.
		latest, changed, again := x.signer(name, true)
		if again != nil || latest.Status.Key == account.Status.Key {
			return err
		}
		account, key = latest, changed
		if err := x.verifyWith(unverified, key); err != nil {
			return err
		}
	}
	x.account, x.fresh = account, x.resource.fresh
	if x.fresh || x.message.IsPostAsGet() {
		return nil
	}
	// What changes something is decided by what is stored.
	latest, changed, err := x.signer(name, true)
	if err != nil {
		return err
	}
	x.account, x.fresh = latest, true
	if latest.Status.Key != account.Status.Key {
		return x.verifyWith(unverified, changed)
	}
	return nil
}

func (x *exchange) verifyWith(unverified *jws.Unverified, key *jws.Key) error {
	var message *jws.Message
	var p *rfc8555.Problem
	if err := x.inTurn(func() { message, p = unverified.Verify(key) }); err != nil || p != nil {
		return errors.Join(err, asError(p))
	}
	x.message = message
	return nil
}

// inTurn does what takes the time of a processor, of which only so much is done at a
// time.
func (x *exchange) inTurn(do func()) error {
	ctx, cancel := context.WithTimeout(x.r.Context(), verificationTimeout)
	defer cancel()
	if x.verifying.Acquire(ctx, 1) != nil {
		return unavailable(x.now, "too many messages are being verified")
	}
	defer x.verifying.Release(1)
	do()
	return nil
}

// accountName returns the name of the account with a URL.
func (x *exchange) accountName(kid string) (string, error) {
	for _, base := range append([]string{x.ExternalURL}, x.FormerURLs...) {
		if name, ok := strings.CutPrefix(kid, base+root+x.endpointName+"/acct/"); ok {
			return name, nil
		}
	}
	return "", malformed("the kid %s is not the URL of an account of this directory", rfc8555.Quote(kid))
}

// signer returns an account and its key in force.
func (x *exchange) signer(name string, fresh bool) (*v1alpha1.AcmeAccount, *jws.Key, error) {
	account, err := x.store.account(x.ctx, name, fresh)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, nil, err
	}
	none := problem(http.StatusBadRequest, rfc8555.ProblemAccountDoesNotExist, "there is no such account")
	if err != nil || account.Spec.Endpoint != x.endpointName || account.Status.Key == "" {
		return nil, nil, none
	}
	key, err := x.store.key(x.ctx, account.Status.Key)
	if apierrors.IsNotFound(err) {
		return nil, nil, none // the client registers again
	}
	return account, key, err
}

// redeem spends the nonce of the message.
func (x *exchange) redeem() error {
	text, p := x.message.Nonce()
	if p != nil {
		return p
	}
	outcome, process := x.nonces.Redeem(text)
	if outcome == nonce.Foreign && x.RedeemElsewhere != nil {
		ctx, cancel := context.WithTimeout(x.ctx, peerTimeout)
		defer cancel()
		if x.RedeemElsewhere(ctx, process, text) {
			outcome = nonce.Valid
		}
	}
	x.metrics.nonces.WithLabelValues(string(outcome)).Inc()
	if outcome != nonce.Valid {
		return problem(http.StatusBadRequest, rfc8555.ProblemBadNonce, "the nonce is not good: use the one of this answer")
	}
	return nil
}

// checkAccount refuses accounts that are not in force.
func (x *exchange) checkAccount() error {
	facts, err := x.store.facts(x.ctx, x.account, x.fresh)
	if err != nil {
		return err
	}
	x.facts = facts
	return asError(facts.Problem())
}
