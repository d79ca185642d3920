package acme

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

const (
	// maxState is the length of states and types; they are stored in objects.
	maxState = 50
	// maxIdentifiers is how many identifiers and authorizations an order has.
	maxIdentifiers = 1000
)

type wireOrder struct {
	Status         string                   `json:"status"`
	Expires        wireTime                 `json:"expires"`
	Identifiers    []rfc8555.Identifier     `json:"identifiers"`
	Authorizations []string                 `json:"authorizations"`
	Finalize       string                   `json:"finalize"`
	Certificate    string                   `json:"certificate"`
	Replaces       string                   `json:"replaces"`
	Profile        string                   `json:"profile"`
	Error          *rfc8555.ProblemDocument `json:"error"`
}

type newOrder struct {
	Identifiers []rfc8555.Identifier `json:"identifiers"`
	NotAfter    string               `json:"notAfter,omitempty"`
	Profile     string               `json:"profile,omitempty"`
	Replaces    string               `json:"replaces,omitempty"`
}

// wireTime is a time; what cannot be parsed counts as missing.
type wireTime struct{ time.Time }

// UnmarshalJSON implements json.Unmarshaler.
func (t *wireTime) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			t.Time = at
		}
	}
	return nil
}

// ProfileError means that a server does not have the profile that an order asks for. It is
// permanent until the order asks for another.
type ProfileError struct {
	// Profile is the name; it is empty if the server has no profiles at all.
	Profile string
}

func (e *ProfileError) Error() string {
	if e.Profile == "" {
		return "acme: certificate authority does not support profiles"
	}
	return "acme: certificate authority does not advertise a profile with name " + e.Profile
}

// CheckProfile returns a *ProfileError if a server does not have a profile.
func CheckProfile(d rfc8555.Directory, profile string) error {
	if profile == "" {
		return nil
	}
	if len(d.Profiles) == 0 {
		return &ProfileError{}
	}
	if _, ok := d.Profiles[profile]; !ok {
		return &ProfileError{Profile: profile}
	}
	return nil
}

// NewOrder creates an order. It returns a *ProfileError if the server does not have the
// profile. It omits Replaces if the server has no renewal information. If the server
// refuses an order with Replaces, NewOrder tries once without it: Replaces only helps with
// limits (RFC 9773 section 5). A fault of the order itself is then refused again.
func (c *Client) NewOrder(ctx context.Context, want rfc8555.OrderRequest) (rfc8555.Order, error) {
	known, err := c.Directory(ctx)
	if err != nil {
		return rfc8555.Order{}, err
	}
	if err := CheckProfile(known, want.Profile); err != nil {
		return rfc8555.Order{}, err
	}
	if known.RenewalInfo == "" {
		want.Replaces = ""
	}
	order, err := c.newOrder(ctx, want)
	if want.Replaces != "" && mayRefuseReplaces(err) {
		want.Replaces = ""
		return c.newOrder(ctx, want)
	}
	return order, err
}

// mayRefuseReplaces reports whether a server may have refused an order because of its
// replaces. Texts are not compared, and few servers have a type for it. A server that limits
// requests or is out of order has not looked at the order.
func mayRefuseReplaces(err error) bool {
	problem, ok := problemIn(err)
	if !ok || problem.HasType(rfc8555.ProblemRateLimited, rfc8555.ProblemBadNonce) {
		return false
	}
	switch problem.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return problem.Status >= 400 && problem.Status < 500
}

func (c *Client) newOrder(ctx context.Context, want rfc8555.OrderRequest) (rfc8555.Order, error) {
	d, err := c.directory(ctx)
	if err != nil {
		return rfc8555.Order{}, err
	}
	body := newOrder{Profile: want.Profile, Replaces: want.Replaces}
	m := message{action: actionNewOrder, class: limitNewOrder, url: d.NewOrder}
	if want.Replaces != "" {
		m.class = limitRenewal // CAs do not count those against limits
	}
	body.Identifiers = append(body.Identifiers, want.Identifiers...)
	m.names = namesOf(want)
	if !want.NotAfter.IsZero() {
		body.NotAfter = want.NotAfter.UTC().Format(time.RFC3339)
	}
	m.payload = body
	got, err := c.post(ctx, m)
	if err != nil {
		return rfc8555.Order{}, err
	}
	url, err := c.location(got)
	if err != nil {
		return rfc8555.Order{}, err
	}
	if m.class == limitNewOrder {
		c.observe(func(b *budgets) { b.placedOrder(url, m) })
	}
	return c.orderOf(got, url)
}

// NearLimit describes a limit of the CA that further orders for the same
// identifiers would reach, for users; "" if there is none. It asks nobody.
func (c *Client) NearLimit(want rfc8555.OrderRequest) (text string) {
	if want.Replaces != "" {
		return ""
	}
	c.observe(func(b *budgets) { text = b.nearLimit(message{names: namesOf(want)}, c.pool.Clock.Now()) })
	return text
}

// observe updates the budgets of the account from an answer.
func (c *Client) observe(tell func(*budgets)) {
	_, _, limits := c.identity()
	limits.observe(tell)
}

// namesOf returns the identifiers of an order, sorted.
func namesOf(want rfc8555.OrderRequest) []string {
	var names []string
	for _, id := range want.Identifiers {
		names = append(names, strings.ToLower(id.Value))
	}
	slices.Sort(names)
	return names
}

// Order returns an order.
func (c *Client) Order(ctx context.Context, url string) (rfc8555.Order, error) {
	got, err := c.post(ctx, message{action: actionGetOrder, url: url})
	if err != nil {
		return rfc8555.Order{}, err
	}
	return c.orderOf(got, url)
}

// Finalize asks for the certificate of an order that is ready. It does not wait
// for the certificate.
func (c *Client) Finalize(ctx context.Context, finalizeURL, orderURL string, csrDER []byte) (rfc8555.Order, error) {
	got, err := c.post(ctx, message{action: actionFinalize, url: finalizeURL, payload: map[string]string{"csr": encode(csrDER)}})
	if err != nil {
		return rfc8555.Order{}, err
	}
	return c.orderOf(got, orderURL)
}

// orderOf returns the order in an answer.
func (c *Client) orderOf(got answer, url string) (rfc8555.Order, error) {
	var wire wireOrder
	if err := got.read(&wire); err != nil {
		return rfc8555.Order{}, err
	}
	order := rfc8555.Order{
		URL: url, Status: rfc8555.ShortLine(wire.Status, maxState), Expires: wire.Expires.Time,
		Authorizations: wire.Authorizations, Finalize: wire.Finalize, Certificate: wire.Certificate,
		Replaces: rfc8555.ShortLine(wire.Replaces, 300), Profile: rfc8555.ShortLine(wire.Profile, 300),
		Error: readProblem(wire.Error), RetryAfter: retryAfter(got.header, got.at),
	}
	for _, id := range wire.Identifiers {
		order.Identifiers = append(order.Identifiers, readIdentifier(id))
	}
	if wire.Status == "" || len(order.Identifiers) > maxIdentifiers || len(order.Authorizations) > maxIdentifiers {
		return rfc8555.Order{}, fmt.Errorf("the answer of %s is not an order, or has more than %d identifiers", got.url, maxIdentifiers)
	}
	c.observe(func(b *budgets) { b.ended(url, order.Status) })
	return order, c.checkURLs(append([]string{order.Finalize, order.Certificate}, order.Authorizations...))
}

func readIdentifier(id rfc8555.Identifier) rfc8555.Identifier {
	return rfc8555.Identifier{Type: rfc8555.ShortLine(id.Type, maxState), Value: rfc8555.ShortLine(id.Value, 300)}
}

// checkURLs checks those URLs that are not empty.
func (c *Client) checkURLs(urls []string) error {
	for _, u := range urls {
		if u == "" {
			continue
		}
		if err := c.server.checkURL(u); err != nil {
			return err
		}
	}
	return nil
}

// resolve returns a URL that can be relative to another.
func resolve(base, text string) (string, error) {
	from, err := url.Parse(base)
	if err != nil {
		return "", err
	}
	u, err := from.Parse(text)
	if err != nil {
		return "", err
	}
	return u.String(), nil
}
