package acmeserver

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/certplane/certplane/internal/acme/acmeserver/jws"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// The limits of a request in time: handling it, and waiting for a turn to verify
// its signature.
const (
	handlingTimeout     = 28 * time.Second
	verificationTimeout = 2 * time.Second
	peerTimeout         = 500 * time.Millisecond
)

// exchange is one HTTP request while it is answered.
type exchange struct {
	*Server
	*call
	w       http.ResponseWriter
	header  http.Header
	problem *rfc8555.Problem // for the log
}

func (s *Server) newExchange(ctx context.Context, w http.ResponseWriter, r *http.Request) *exchange {
	c := &call{r: r, ctx: ctx, now: s.Now(), address: connectionAddress(r), externalURL: s.ExternalURL}
	if s.Address != nil {
		c.address, c.shared = s.Address(r)
	}
	if below, ok := strings.CutPrefix(r.URL.EscapedPath(), root); ok {
		var rest string
		c.endpointName, rest, _ = strings.Cut(below, "/")
		c.resource, c.args = find(s.resources, rest)
	}
	return &exchange{Server: s, call: c, w: w, header: w.Header()}
}

func connectionAddress(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap().WithZone("")
}

// findEndpoint looks the endpoint up. An endpoint that is not ready serves only resources
// that need no message.
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

// authenticate reads the message and finds the account that has signed it.
func (x *exchange) authenticate() error {
	body, err := x.body()
	if err != nil {
		return err
	}
	return x.authenticator.authenticate(x.call, body)
}
