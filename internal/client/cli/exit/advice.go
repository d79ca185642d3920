package exit

import (
	"errors"
	"fmt"
	"net"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/served"
)

// Advise turns the error of a server, or of a missing server, into one that a
// person can act on. Doing is what was tried.
func Advise(doing string, err error) error {
	wrapped := fmt.Errorf("%s: %w", doing, err)
	var refusal apierrors.APIStatus
	var dial *net.OpError
	switch {
	case errors.As(err, &dial) && dial.Op == "dial":
		return WithNext(wrapped, "Is the server running? 'certplane serve' starts one.")
	case served.IsMissing(err):
		return missing(doing, err)
	case !errors.As(err, &refusal):
		return wrapped
	case apierrors.IsInvalid(err):
		return &Error{Err: &invalidError{doing, refusal.Status(), err}, Code: General}
	case apierrors.IsUnauthorized(err):
		return WithNext(wrapped, "The server does not accept the credentials of this kubeconfig.")
	case apierrors.IsForbidden(err):
		return WithNext(wrapped, "To see who you are to the server: certplane kubectl auth whoami")
	}
	return wrapped
}

// missing returns the error for a kind that the server does not serve.
func missing(doing string, err error) error {
	var status apierrors.APIStatus
	about := metav1.StatusDetails{}
	if errors.As(err, &status) && status.Status().Details != nil {
		about = *status.Status().Details
	}
	text := fmt.Errorf("%s: %w", doing, &missingError{about, err})
	switch {
	case about.Group == "certplane.dev":
		return WithNext(text, "'certplane serve' has this kind; in a cluster, 'certplane manifests' installs it.")
	case strings.HasSuffix(about.Group, "cert-manager.io"):
		return WithNext(text, "Install the kinds of cert-manager.io there.")
	}
	return text
}

// missingError says that a server does not serve a kind, in plainer words than clients.
type missingError struct {
	about metav1.StatusDetails
	err   error
}

func (e *missingError) Unwrap() error { return e.err }

func (e *missingError) Error() string {
	switch {
	case e.about.Kind == "":
		return "the API server does not serve this kind"
	case e.about.Group == "":
		return "the API server does not serve " + e.about.Kind
	}
	return fmt.Sprintf("the API server does not serve %s.%s", e.about.Kind, e.about.Group)
}

// invalidError shows the fields that a server refused, without the submitted
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
		message := shorten(cause.Message)
		if cause.Field != "" {
			message = cause.Field + ": " + message
		}
		causes = append(causes, message)
	}
	return fmt.Sprintf("%s: the server refuses it: %s", e.doing, strings.Join(causes, "; "))
}

// shorten removes the middle of messages that quote a whole request.
func shorten(s string) string {
	const most = 400
	if len(s) <= most {
		return s
	}
	return s[:most/2] + " ... " + s[len(s)-most/2:]
}
