package challenge

import (
	"regexp"
	"strings"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"

	"github.com/certplane/certplane/internal/policy/order"
)

// maxReason is the maximum length of a reason in bytes. Part of its text comes from
// servers that tenants choose.
const maxReason = 2048

// Reasons of Events.
const (
	eventPresentError = "PresentError"
	eventFailed       = "Failed"
)

// Beginnings of reasons.
const (
	reasonAccept    = "Error accepting challenge: "
	reasonAuthorize = "Error accepting authorization: "
	reasonRead      = "Error reading the authorization: "
	reasonCleanUp   = "Error cleaning up challenge: "
	reasonIssuer    = "Waiting for the issuer: "
	reasonLimited   = "waiting until "
	reasonDone      = "Successfully authorized domain"

	reasonPassed     = "The self check has succeeded"
	reasonValidating = "Waiting for the CA to validate the "
)

// What differs between two errors that mean the same: identifiers of requests,
// and the local ports of connections.
var (
	requestID = regexp.MustCompile(`(?i)\b((?:request|correlation|trace|ray)[ _-]?id)(["']?\s*[:=]?\s*["']?)[0-9a-z][0-9a-z_+/=-]{7,}`)
	localPort = regexp.MustCompile(`(\d+\.\d+\.\d+\.\d+|\[[0-9a-fA-F:.]+(?:%[0-9A-Za-z]+)?\]):\d+->`)
)

// Stable returns a text that is the same for each occurrence of an error, and
// fits into a status.
func Stable(text string) string {
	text = requestID.ReplaceAllString(text, "${1}${2}<redacted>")
	return fit(localPort.ReplaceAllString(text, "${1}->"))
}

// fit returns a text that fits into a status.
func fit(text string) string {
	text = strings.ToValidUTF8(text, "")
	if len(text) <= maxReason {
		return text
	}
	const mark = "..."
	return strings.ToValidUTF8(text[:maxReason-len(mark)], "") + mark
}

// minute returns a time in UTC, rounded up to the minute: a text with it does
// not change all the time.
func minute(t time.Time) string {
	return t.Add(time.Minute - 1).UTC().Truncate(time.Minute).Format(time.RFC3339)
}

// Class is the kind of obstacle that a Challenge has met.
type Class string

// The classes.
const (
	ClassNone         Class = ""
	ClassIssuer       Class = "Issuer"
	ClassPresentError Class = "PresentError"
	ClassSelfCheck    Class = "SelfCheck"
	ClassRateLimited  Class = "RateLimited"
	ClassCA           Class = "CA"
	ClassFailed       Class = "Failed"
	ClassCleanUpError Class = "CleanUpError"
)

// ClassOf returns the kind of obstacle that a Challenge shows.
func ClassOf(ch *acmev1.Challenge) Class {
	reason := ch.Status.Reason
	switch {
	case strings.HasPrefix(reason, reasonCleanUp):
		return ClassCleanUpError
	case order.IsFailure(ch.Status.State):
		return ClassFailed
	case reason == "" || ch.Status.State == acmev1.Valid:
		return ClassNone
	case strings.HasPrefix(reason, reasonLimited):
		return ClassRateLimited
	case strings.HasPrefix(reason, reasonIssuer):
		return ClassIssuer
	case strings.HasPrefix(reason, reasonAccept), strings.HasPrefix(reason, reasonRead), strings.HasPrefix(reason, reasonAuthorize):
		return ClassCA
	case !ch.Status.Presented && ch.Status.State == acmev1.Unknown:
		return ClassCA
	case !ch.Status.Presented:
		return ClassPresentError
	case strings.HasPrefix(reason, "Waiting for "+string(ch.Spec.Type)):
		return ClassSelfCheck
	}
	return ClassNone
}
