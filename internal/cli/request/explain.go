package request

import (
	"errors"
	"fmt"
	"net"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/cli/exit"
)

// explain turns what a server, or its absence, answered into something a
// person can act on. Doing is what was tried.
func explain(doing string, err error) error {
	wrapped := fmt.Errorf("%s: %w", doing, err)
	var refusal apierrors.APIStatus
	var dial *net.OpError
	switch {
	case errors.As(err, &dial) && dial.Op == "dial":
		return exit.WithNext(wrapped, "Is the server running? 'certplane serve' starts one.")
	case !errors.As(err, &refusal):
		return wrapped
	case apierrors.IsInvalid(err):
		return &exit.Error{Err: &invalidError{doing, refusal.Status(), err}, Code: exit.General}
	case apierrors.IsUnauthorized(err):
		return exit.WithNext(wrapped, "The server does not accept the credentials of this kubeconfig.")
	case apierrors.IsForbidden(err):
		return exit.WithNext(wrapped, "To see who you are to the server: certplane kubectl auth whoami")
	}
	return wrapped
}

// invalidError shows which fields a server refused, without the submitted
// data that the server's own message repeats.
type invalidError struct {
	doing  string
	status metav1.Status
	err    error
}

func (e *invalidError) Unwrap() error { return e.err }

func (e *invalidError) Error() string {
	if e.status.Details == nil || len(e.status.Details.Causes) == 0 {
		return fmt.Sprintf("%s: %v", e.doing, e.err)
	}
	var causes []string
	for _, cause := range e.status.Details.Causes {
		causes = append(causes, cause.Field+": "+shorten(cause.Message))
	}
	return fmt.Sprintf("%s: the server refuses it: %s", e.doing, strings.Join(causes, "; "))
}

// shorten cuts the middle out of messages that quote a whole request.
func shorten(s string) string {
	const most = 400
	if len(s) <= most {
		return s
	}
	return s[:most/2] + " ... " + s[len(s)-most/2:]
}

// verdictError is nil for an issued request and the refusal otherwise.
func (w *waiter) verdictError() error {
	v := judge(w.last)
	switch v.state {
	case denied:
		return &exit.Error{
			Err:  fmt.Errorf("the request %s was denied%s", w.name, because(v.condition.Reason, v.condition.Message)),
			Code: exit.Denied,
			Next: []string{"A denial is final. Once its reason is gone, submit a new request under another name."},
		}
	case failed:
		return &exit.Error{
			Err:  fmt.Errorf("signer %s could not issue %s%s", w.last.Spec.SignerName, w.name, because(v.condition.Reason, v.condition.Message)),
			Code: exit.Failed,
			Next: []string{"A failure is final. Correct what the signer objects to and submit a new request under another name."},
		}
	}
	return nil
}

// because quotes a condition as far as it says anything.
func because(reason, message string) string {
	switch {
	case reason != "" && message != "":
		return fmt.Sprintf(": %s (%s)", message, reason)
	case reason+message != "":
		return ": " + reason + message
	}
	return ", no reason given"
}

// timeoutError says who has not acted and how to have them do so.
func (r *run) timeoutError(w *waiter) error {
	again := []string{"To go on waiting:", "  " + r.again(w.name)}
	out := &exit.Error{Code: exit.TimedOut}
	switch {
	case w.trouble != nil:
		out.Err = fmt.Errorf("no certificate within %s: the server cannot be asked: %w", r.Wait, w.trouble)
		out.Next = again
	case judge(w.last).state == approved:
		out.Err = fmt.Errorf("%s is approved, but within %s signer %s has not issued it", w.name, r.Wait, w.last.Spec.SignerName)
		out.Next = append([]string{
			"Is the signer's name right, and does the controller that answers to it run? What it has said about the request:",
			"  certplane kubectl describe csr " + w.name,
		}, again...)
	default:
		out.Err = fmt.Errorf("nobody approved or denied %s within %s", w.name, r.Wait)
		out.Next = append([]string{"To approve it:", "  certplane kubectl certificate approve " + w.name}, again...)
	}
	return out
}
