package acme

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

// ErrNoRenewalInfo means that a server does not offer renewal information.
var ErrNoRenewalInfo = errors.New("the ACME server has no renewal information")

type wireRenewalInfo struct {
	SuggestedWindow struct {
		Start wireTime `json:"start"`
		End   wireTime `json:"end"`
	} `json:"suggestedWindow"`
	ExplanationURL string `json:"explanationURL"`
}

// RenewalInfo returns when a certificate should be renewed. certID is as in RFC
// 9773 section 4.1. The request is not signed. Its error is a rfc8555.ErrNoWindow
// if the answer has no window.
func (c *Client) RenewalInfo(ctx context.Context, certID string) (rfc8555.RenewalInfo, error) {
	d, err := c.directory(ctx)
	if err != nil {
		return rfc8555.RenewalInfo{}, err
	}
	if d.RenewalInfo == "" {
		return rfc8555.RenewalInfo{}, ErrNoRenewalInfo
	}
	got, err := c.get(ctx, actionRenewalInfo, strings.TrimSuffix(d.RenewalInfo, "/")+"/"+url.PathEscape(certID))
	if err != nil {
		return rfc8555.RenewalInfo{}, err
	}
	return renewalInfoOf(got)
}

func renewalInfoOf(got answer) (rfc8555.RenewalInfo, error) {
	var wire wireRenewalInfo
	if err := got.read(&wire); err != nil {
		return rfc8555.RenewalInfo{}, fmt.Errorf("%w: %w", rfc8555.ErrNoWindow, err)
	}
	info := rfc8555.RenewalInfo{
		Start: wire.SuggestedWindow.Start.Time, End: wire.SuggestedWindow.End.Time,
		ExplanationURL: rfc8555.ShortLine(wire.ExplanationURL, maxURL), RetryAfter: retryAfter(got.header, got.at),
	}
	if info.Start.IsZero() || !info.End.After(info.Start) {
		return rfc8555.RenewalInfo{}, fmt.Errorf("%w: that of %s has to end after it starts", rfc8555.ErrNoWindow, got.url)
	}
	return info, nil
}
