package acme

import (
	"context"
	"fmt"
	"regexp"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

// maxChallenges is how many challenges an authorization has.
const maxChallenges = 50

type wireAuthorization struct {
	Identifier rfc8555.Identifier `json:"identifier"`
	Status     string             `json:"status"`
	Expires    wireTime           `json:"expires"`
	Wildcard   bool               `json:"wildcard"`
	Challenges []wireChallenge    `json:"challenges"`
}

type wireChallenge struct {
	URL               string                   `json:"url"`
	Type              string                   `json:"type"`
	Status            string                   `json:"status"`
	Token             string                   `json:"token"`
	Error             *rfc8555.ProblemDocument `json:"error"`
	IssuerDomainNames []string                 `json:"issuer-domain-names"`
	AccountURI        string                   `json:"accounturi"`
}

// Authorization returns an authorization.
func (c *Client) Authorization(ctx context.Context, url string) (rfc8555.Authorization, error) {
	got, err := c.post(ctx, message{action: actionAuthorization, url: url})
	if err != nil {
		return rfc8555.Authorization{}, err
	}
	var wire wireAuthorization
	if err := got.read(&wire); err != nil {
		return rfc8555.Authorization{}, err
	}
	if wire.Status == "" || len(wire.Challenges) > maxChallenges {
		return rfc8555.Authorization{}, fmt.Errorf("the answer of %s is not an authorization, or has more than %d challenges", got.url, maxChallenges)
	}
	authorization := rfc8555.Authorization{
		URL: url, Identifier: readIdentifier(wire.Identifier), Status: rfc8555.ShortLine(wire.Status, maxState), Expires: wire.Expires.Time,
		Wildcard: wire.Wildcard, RetryAfter: retryAfter(got.header, got.at),
	}
	for _, one := range wire.Challenges {
		challenge, err := c.challengeOf(one)
		if err != nil {
			return rfc8555.Authorization{}, err
		}
		authorization.Challenges = append(authorization.Challenges, challenge)
	}
	c.observe(func(b *budgets) { b.authorized(authorization, got.at) })
	return authorization, nil
}

// DeactivateAuthorization ends an authorization, so that a CA does not count it
// as pending.
func (c *Client) DeactivateAuthorization(ctx context.Context, url string) error {
	_, err := c.post(ctx, message{action: actionUnnamed, url: url, payload: map[string]string{"status": rfc8555.StateDeactivated}})
	return err
}

// Accept asks the server to validate a challenge.
func (c *Client) Accept(ctx context.Context, challengeURL string) (rfc8555.Challenge, error) {
	got, err := c.post(ctx, message{action: actionAccept, url: challengeURL, payload: struct{}{}})
	if err != nil {
		return rfc8555.Challenge{}, err
	}
	var wire wireChallenge
	if err := got.read(&wire); err != nil {
		return rfc8555.Challenge{}, err
	}
	if wire.URL == "" {
		wire.URL = challengeURL
	}
	challenge, err := c.challengeOf(wire)
	challenge.RetryAfter = retryAfter(got.header, got.at)
	return challenge, err
}

// tokenForm is the alphabet of tokens (RFC 8555 section 8): they become parts of
// paths.
var tokenForm = regexp.MustCompile(`^[A-Za-z0-9_-]{0,256}$`)

const maxIssuerDomainNames = 20

func (c *Client) challengeOf(wire wireChallenge) (rfc8555.Challenge, error) {
	if !tokenForm.MatchString(wire.Token) {
		return rfc8555.Challenge{}, fmt.Errorf("the server has sent a challenge of type %s whose token has other characters than base64url", rfc8555.ShortLine(wire.Type, maxState))
	}
	if err := c.checkURLs([]string{wire.URL, wire.AccountURI}); err != nil {
		return rfc8555.Challenge{}, err
	}
	if len(wire.IssuerDomainNames) > maxIssuerDomainNames {
		wire.IssuerDomainNames = wire.IssuerDomainNames[:maxIssuerDomainNames]
	}
	challenge := rfc8555.Challenge{
		URL: wire.URL, Type: rfc8555.ShortLine(wire.Type, maxState), Status: rfc8555.ShortLine(wire.Status, maxState), Token: wire.Token,
		Error: readProblem(wire.Error), AccountURI: wire.AccountURI,
	}
	for _, name := range wire.IssuerDomainNames {
		challenge.IssuerDomainNames = append(challenge.IssuerDomainNames, rfc8555.ShortLine(name, 255))
	}
	return challenge, nil
}
