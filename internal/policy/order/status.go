package order

import (
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

// State returns the state of an object for a state of the protocol. The API refuses other
// states: a deactivated or revoked authorization is stored as invalid, and a state that no
// RFC names as unknown.
func State(status string) acmev1.State {
	switch status {
	case rfc8555.StateValid, rfc8555.StateReady, rfc8555.StatePending, rfc8555.StateProcessing, rfc8555.StateInvalid, rfc8555.StateExpired:
		return acmev1.State(status)
	case rfc8555.StateDeactivated, rfc8555.StateRevoked:
		return acmev1.Invalid
	}
	return acmev1.Unknown
}

// IsFailure reports whether an Order or a Challenge in this state has failed.
func IsFailure(s acmev1.State) bool {
	return s == acmev1.Invalid || s == acmev1.Expired || s == acmev1.Errored
}

// IsFinal reports whether this state never changes.
func IsFinal(s acmev1.State) bool { return s == acmev1.Valid || IsFailure(s) }

// Observe writes the CA's answer about an order into the status. It keeps fields that are
// set and cannot change. It does not write a failure: the reason for it has to be found
// first.
func Observe(status *acmev1.OrderStatus, said rfc8555.Order) {
	if status.URL == "" {
		status.URL = said.URL
	}
	if status.FinalizeURL == "" {
		status.FinalizeURL = said.Finalize
	}
	if len(status.Authorizations) == 0 {
		for _, url := range said.Authorizations {
			status.Authorizations = append(status.Authorizations, acmev1.ACMEAuthorization{URL: url})
		}
	}
	if state := State(said.Status); state != acmev1.Unknown && !IsFailure(state) {
		status.State = state
	}
}

// maxOffered limits the challenges of an authorization that are stored.
const maxOffered = 10

// Authorization returns an authorization for the status.
func Authorization(url string, said rfc8555.Authorization) acmev1.ACMEAuthorization {
	a := acmev1.ACMEAuthorization{
		URL: url, Identifier: said.Identifier.Value, Wildcard: new(said.Wildcard), InitialState: State(said.Status),
	}
	for _, c := range said.Challenges[:min(len(said.Challenges), maxOffered)] {
		a.Challenges = append(a.Challenges, acmev1.ACMEChallenge{URL: c.URL, Token: c.Token, Type: c.Type})
	}
	return a
}

// Fail sets a state of failure. An empty reason keeps the present one.
func Fail(status *acmev1.OrderStatus, state acmev1.State, reason string, now time.Time) {
	status.State = state
	if reason != "" {
		status.Reason = bounded(reason)
	}
	if status.FailureTime == nil {
		status.FailureTime = new(metav1.NewTime(now))
	}
}
