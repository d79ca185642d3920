package acme

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

// directory is the directory of a server (RFC 8555 section 7.1.1).
type directory struct {
	NewNonce    string `json:"newNonce"`
	NewAccount  string `json:"newAccount"`
	NewOrder    string `json:"newOrder"`
	RevokeCert  string `json:"revokeCert"`
	KeyChange   string `json:"keyChange"`
	RenewalInfo string `json:"renewalInfo"`
	Meta        struct {
		TermsOfService          string            `json:"termsOfService"`
		CAAIdentities           []string          `json:"caaIdentities"`
		ExternalAccountRequired bool              `json:"externalAccountRequired"`
		Profiles                map[string]string `json:"profiles"`
	} `json:"meta"`
}

const (
	// directoryLifetime is how long a directory is used before it is read again:
	// CAs add profiles and change their terms.
	directoryLifetime = time.Hour
	maxProfiles       = 100
	maxCAAIdentities  = 100
)

// Directory returns the directory of the server, which is at most an hour old.
func (c *Client) Directory(ctx context.Context) (rfc8555.Directory, error) {
	d, err := c.directory(ctx)
	if err != nil {
		return rfc8555.Directory{}, err
	}
	return rfc8555.Directory{
		RenewalInfo: d.RenewalInfo, KeyChange: d.KeyChange, TermsOfService: d.Meta.TermsOfService,
		CAAIdentities: d.Meta.CAAIdentities, ExternalAccountRequired: d.Meta.ExternalAccountRequired,
		Profiles: maps.Clone(d.Meta.Profiles),
	}, nil
}

func (c *Client) directory(ctx context.Context) (*directory, error) {
	s := c.server
	s.mu.Lock()
	known, until := s.directory, s.until
	s.mu.Unlock()
	now := c.pool.Clock.Now()
	if known != nil && now.Before(until) {
		return known, nil
	}
	got, err := c.get(ctx, actionDiscover, s.url)
	if err != nil {
		return nil, err
	}
	read, err := s.parseDirectory(got.body)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.directory, s.until = read, now.Add(directoryLifetime)
	return read, nil
}

func (s *server) parseDirectory(body []byte) (*directory, error) {
	d := &directory{}
	if err := json.Unmarshal(body, d); err != nil {
		return nil, fmt.Errorf("reading the directory %s: the answer is not a directory of an ACME server", s.url)
	}
	for name, url := range map[string]string{"newNonce": d.NewNonce, "newAccount": d.NewAccount, "newOrder": d.NewOrder} {
		if url == "" {
			return nil, fmt.Errorf("reading the directory %s: it has no %s: is this the URL of an ACME server's directory?", s.url, name)
		}
	}
	for _, url := range []string{d.NewNonce, d.NewAccount, d.NewOrder, d.RevokeCert, d.KeyChange, d.RenewalInfo} {
		if url == "" {
			continue
		}
		if err := s.checkURL(url); err != nil {
			return nil, fmt.Errorf("reading the directory %s: %w", s.url, err)
		}
	}
	if len(d.Meta.Profiles) > maxProfiles || len(d.Meta.CAAIdentities) > maxCAAIdentities {
		return nil, fmt.Errorf("reading the directory %s: it has more than %d profiles or CAA identities", s.url, maxProfiles)
	}
	d.Meta.TermsOfService = rfc8555.ShortLine(d.Meta.TermsOfService, maxURL)
	return d, nil
}

// nonce returns a nonce for one request.
func (c *Client) nonce(ctx context.Context) (string, error) {
	if nonce := c.server.takeNonce(); nonce != "" {
		return nonce, nil
	}
	d, err := c.directory(ctx)
	if err != nil {
		return "", err
	}
	got, err := c.do(ctx, actionUnnamed, http.MethodHead, d.NewNonce, nil, "")
	if err != nil {
		return "", fmt.Errorf("asking for a nonce: %w", err)
	}
	nonce := got.header.Get("Replay-Nonce")
	if nonce == "" {
		return "", fmt.Errorf("asking for a nonce: %s has sent none", d.NewNonce)
	}
	return nonce, nil
}
