package explain

import (
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
)

// SuggestedRenewal is the suggestion of an ACME issuer's CA for the renewal of a
// certificate (RFC 9773). The controller chooses the Certificate's renewal time in its
// window.
type SuggestedRenewal struct {
	// The window; nil if unknown.
	Start *time.Time `json:"start,omitempty"`
	End   *time.Time `json:"end,omitempty"`
	// ExplanationURL is the URL of the CA's explanation.
	ExplanationURL string `json:"explanationURL,omitempty"`
	// Error is the error of the CA's last answer.
	Error string `json:"error,omitempty"`
	// NextCheck is the time of the next query.
	NextCheck *time.Time `json:"nextCheck,omitempty"`
}

// SuggestedRenewalOf returns the suggestion in the status of a Certificate; nil without
// one.
func SuggestedRenewalOf(crt *cmv1.Certificate) *SuggestedRenewal {
	if crt.Status.ACME == nil || crt.Status.ACME.ARI == nil {
		return nil
	}
	ari := crt.Status.ACME.ARI
	s := &SuggestedRenewal{ExplanationURL: ari.ExplanationURL, Error: ari.LastError, NextCheck: InUTC(ari.NextCheck)}
	if w := ari.SuggestedWindow; w != nil {
		s.Start, s.End = InUTC(w.Start), InUTC(w.End)
	}
	return s
}

// Rows returns the window and the error, with their names, as text.
func (s *SuggestedRenewal) Rows() [][]string {
	if s == nil {
		return nil
	}
	var rows [][]string
	if s.Start != nil && s.End != nil {
		window := s.Start.Format(time.RFC3339) + " to " + s.End.Format(time.RFC3339)
		if s.ExplanationURL != "" {
			window += ", see " + s.ExplanationURL
		}
		rows = append(rows, []string{"suggested by the CA", window})
	}
	if s.Error != "" {
		text := s.Error
		if s.NextCheck != nil {
			text += " (asked again at " + s.NextCheck.Format(time.RFC3339) + ")"
		}
		rows = append(rows, []string{"no answer of the CA", text})
	}
	return rows
}
