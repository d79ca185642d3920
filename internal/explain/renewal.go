package explain

import (
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
)

// SuggestedRenewal is what the CA of an ACME issuer says of the renewal of a
// certificate (RFC 9773). The time that was chosen in its window is the renewal
// time of the Certificate.
type SuggestedRenewal struct {
	// The window; nil if it is not known.
	Start *time.Time `json:"start,omitempty"`
	End   *time.Time `json:"end,omitempty"`
	// ExplanationURL is where the CA says why.
	ExplanationURL string `json:"explanationURL,omitempty"`
	// Error is why the CA has not answered the last time.
	Error string `json:"error,omitempty"`
	// NextCheck is when the CA is asked again.
	NextCheck *time.Time `json:"nextCheck,omitempty"`
}

// SuggestedRenewalOf returns what the status of a Certificate has of it; nil
// without anything.
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

// Rows returns the window and the error, with their names, for people.
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
