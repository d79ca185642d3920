package crash

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/acme"

	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/apitest"
)

// visitor is a client with one order, or one to come.
type visitor struct {
	*acme.Client
	ctx           context.Context
	name, address string
	order         *acme.Order
	csr           []byte
	// cert is its certificate, as soon as it has one.
	cert *x509.Certificate
	// prepare is done before the store goes away, ask again and again while it is.
	prepare, ask func(*visitor) error
}

// visitors are clients at each step of an order. The last but one has to begin a
// validation; the last one asks for its certificate while the store goes away.
func (o *outage) visitors() []*visitor {
	nothing := func(*visitor) error { return nil }
	placed := inTurn((*visitor).register, (*visitor).place)
	proven := inTurn(placed, o.proven)
	issued := inTurn(proven, (*visitor).finalize)
	next, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		o.Fatal(err)
	}
	all := []*visitor{
		{name: "registers", prepare: nothing, ask: (*visitor).register},
		{name: "orders", prepare: (*visitor).register, ask: (*visitor).place},
		{name: "starts its challenge", prepare: placed, ask: o.accept},
		{name: "finalizes", prepare: proven, ask: (*visitor).finalize},
		{name: "fetches its certificate", prepare: issued, ask: (*visitor).fetch},
		{name: "revokes", prepare: issued, ask: (*visitor).revoke},
		{name: "rolls its key over", prepare: placed, ask: func(v *visitor) error { return v.rollOver(next) }},
		{name: "is being validated", prepare: placed, ask: (*visitor).poll},
		{name: "has finalized", prepare: proven, ask: (*visitor).finalize},
	}
	for i, v := range all {
		v.ctx, v.address = o.Context(), address(i+1)
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			o.Fatal(err)
		}
		v.Client = &acme.Client{
			Key: key, HTTPClient: &http.Client{Transport: o.seen.of(v.name), Timeout: timeout}, DirectoryURL: o.directory(),
			RetryBackoff: func(int, *http.Request, *http.Response) time.Duration {
				if o.away.Load() {
					return 0 // each answer is looked at
				}
				return 10 * time.Millisecond
			},
		}
		if v.csr, err = x509.CreateCertificateRequest(nil, &x509.CertificateRequest{IPAddresses: []net.IP{net.ParseIP(v.address)}}, apitest.NewKey(o)); err != nil {
			o.Fatal(err)
		}
	}
	return all
}

func inTurn(steps ...func(*visitor) error) func(*visitor) error {
	return func(v *visitor) error {
		for _, do := range steps {
			if err := do(v); err != nil {
				return err
			}
		}
		return nil
	}
}

func (v *visitor) register() error {
	_, err := v.Register(v.ctx, &acme.Account{}, acme.AcceptTOS)
	if errors.Is(err, acme.ErrAccountAlreadyExists) {
		return nil
	}
	return err
}

func (v *visitor) place() error {
	order, err := v.AuthorizeOrder(v.ctx, acme.IPIDs(v.address))
	if err == nil {
		v.order = order
	}
	return err
}

func (o *outage) accept(v *visitor) error {
	authz, err := v.GetAuthorization(v.ctx, v.order.AuthzURLs[0])
	if err != nil {
		return err
	}
	answer, err := v.HTTP01ChallengeResponse(authz.Challenges[0].Token)
	if err != nil {
		return err
	}
	o.answers.Store(v.HTTP01ChallengePath(authz.Challenges[0].Token), answer)
	_, err = v.Accept(v.ctx, authz.Challenges[0])
	return err
}

func (v *visitor) poll() error {
	_, err := v.GetAuthorization(v.ctx, v.order.AuthzURLs[0])
	return err
}

func (o *outage) proven(v *visitor) error {
	_, err := o.proveOrder(v.ctx, v.Client, v.order)
	return err
}

// finalize has the certificate issued. It is the same one each time.
func (v *visitor) finalize() error {
	chain, url, err := v.CreateOrderCert(v.ctx, v.order.FinalizeURL, v.csr, false)
	if err != nil {
		return err
	}
	if v.cert != nil && !bytes.Equal(v.cert.Raw, chain[0]) {
		return errors.New("this is another certificate than before")
	}
	v.order.CertURL = url
	v.cert, err = x509.ParseCertificate(chain[0])
	return err
}

func (v *visitor) fetch() error {
	_, err := v.FetchCert(v.ctx, v.order.CertURL, true)
	return err
}

func (v *visitor) revoke() error {
	err := v.RevokeCert(v.ctx, nil, v.cert.Raw, acme.CRLReasonSuperseded)
	var problem *acme.Error
	if errors.As(err, &problem) && problem.ProblemType == rfc8555.Namespace+rfc8555.ProblemAlreadyRevoked {
		return nil
	}
	return err
}

func (v *visitor) rollOver(next crypto.Signer) error {
	if v.Key == next {
		return nil
	}
	return v.AccountKeyRollover(v.ctx, next)
}

// end has a client do what it was about to do, and get its certificate.
func (o *outage) end(v *visitor) error {
	ctx, cancel := context.WithTimeout(o.Context(), timeout)
	defer cancel()
	v.ctx = ctx
	if err := again(ctx, func() error { return v.ask(v) }); err != nil {
		return err
	}
	if v.order == nil {
		if err := again(ctx, v.place); err != nil {
			return err
		}
	}
	if err := again(ctx, func() error { return o.proven(v) }); err != nil {
		return err
	}
	return again(ctx, v.finalize)
}

// witness looks at what clients are answered while the store is away.
type witness struct {
	balancer *balancer
	away     *atomic.Bool

	mu       sync.Mutex
	answered map[string]int // by what was answered
	wrong    map[string]bool
	// told are the clients that have got an answer since the store is away; everyone is
	// closed when that many have.
	told     map[string]bool
	all      int
	everyone chan struct{}
}

func newWitness(b *balancer, away *atomic.Bool) *witness {
	return &witness{balancer: b, away: away, answered: map[string]int{}, wrong: map[string]bool{}, told: map[string]bool{}, everyone: make(chan struct{})}
}

// everybody is closed when that many clients have been told that the store is away.
func (w *witness) everybody(count int) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = count
	w.check()
	return w.everyone
}

// check closes everyone. Its caller holds mu.
func (w *witness) check() {
	if w.all > 0 && len(w.told) == w.all {
		w.all = 0
		close(w.everyone)
	}
}

func (w *witness) toldOf() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.told))
}

func (w *witness) tally() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.answered)
}

// of returns what a client sends its requests by.
func (w *witness) of(name string) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		before := w.away.Load()
		answer, err := w.balancer.RoundTrip(request)
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil {
			return nil, err
		}
		answer.Body = io.NopCloser(bytes.NewReader(body))
		// What was asked before can still be answered.
		if w.away.Load() && (before || answer.StatusCode != http.StatusOK) {
			w.note(name, request, answer, body)
		}
		return answer, nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// note records an answer during an outage of the store. Answers to POSTs must report the
// outage; requests without an account must be answered as always.
func (w *witness) note(name string, request *http.Request, answer *http.Response, body []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answered[fmt.Sprintf("%s %d", request.Method, answer.StatusCode)]++
	wrong := ""
	if request.Method != http.MethodPost {
		if answer.StatusCode != http.StatusOK {
			wrong = "it needs no store"
		}
	} else if !bytes.Contains(body, []byte(rfc8555.ProblemBadNonce)) {
		wrong = wrongWith(answer, body)
		w.told[name] = true
		w.check()
	}
	if wrong != "" {
		w.wrong[fmt.Sprintf("a client that %s, %s %s: %s: %d %v %s", name, request.Method, request.URL.Path, wrong, answer.StatusCode, answer.Header, body)] = true
	}
}

// storeAway is all that clients learn of the cause.
const storeAway = "the store cannot be reached: try again later"

// wrongWith returns what is wrong with an answer that says that the store is away (RFC 8555
// sections 6.5 and 6.7, RFC 9110 section 10.2.3).
func wrongWith(answer *http.Response, body []byte) string {
	var p rfc8555.ProblemDocument
	after, err := strconv.Atoi(answer.Header.Get("Retry-After"))
	switch {
	case answer.StatusCode != http.StatusServiceUnavailable:
		return "the status"
	case err != nil || after < 1 || after > 60:
		return "Retry-After"
	case !strings.HasPrefix(answer.Header.Get("Content-Type"), rfc8555.MediaTypeProblem):
		return "the media type"
	case answer.Header.Get("Replay-Nonce") == "":
		return "no nonce"
	case json.Unmarshal(body, &p) != nil || p.Type != rfc8555.Namespace+rfc8555.ProblemServerInternal || p.Status != answer.StatusCode:
		return "the document"
	case p.Detail != storeAway:
		return "the detail"
	}
	return ""
}
