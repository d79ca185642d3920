// Package decide approves and denies requests by hand.
package decide

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/served"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requestkind"
	"github.com/certplane/certplane/internal/rights"
)

// Decision is a decision and its reason.
type Decision struct {
	// Kind is Approved or Denied.
	Kind cmv1.CertificateRequestConditionType
	// Reason is one word, Message is text for people.
	Reason, Message string
}

// Validate returns an error for a missing field.
func (d Decision) Validate() error {
	if d.Reason == "" || d.Message == "" {
		return errors.New("--reason and --message must not be empty: they explain the decision to other users")
	}
	return nil
}

// fieldManager is the manager of the decision in managed fields.
const fieldManager = "certplane"

// Connect returns a client for Requests. It does not call the server yet.
func Connect(cfg *rest.Config) (client.Client, error) {
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{certmanager.AddToScheme, certificatesv1.AddToScheme} {
		if err := add(kinds); err != nil {
			return nil, fmt.Errorf("making the scheme: %w", err)
		}
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateRequestKind), meta.RESTScopeNamespace)
	mapper.Add(certificatesv1.SchemeGroupVersion.WithKind(rights.SigningRequests.Name), meta.RESTScopeRoot)
	connected, err := client.New(cfg, client.Options{Scheme: kinds, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("connecting to the server: %w", err)
	}
	return connected, nil
}

// ErrNotFound reports that no request has this name.
var ErrNotFound = errors.New("there is no")

// Requests approves or denies the requests with these names, and prints the outcome of
// each: an approval can be a vote that needs further votes. After a failure it continues
// with the others, and returns the error at the end. namespace is the namespace of
// CertificateRequests.
func Requests(ctx context.Context, c client.Client, namespace string, names []Name, d Decision, now time.Time, out io.Writer) error {
	var failed error
	for _, name := range names {
		failed = errors.Join(failed, one(ctx, c, namespace, name, d, now, out))
	}
	return failed
}

// one decides one request. It reads the request again after a conflict with another
// writer.
func one(ctx context.Context, c client.Client, namespace string, name Name, d Decision, now time.Time, out io.Writer) error {
	var r *undecided
	err := retry.RetryOnConflict(retry.DefaultRetry, func() (err error) {
		if r, err = find(ctx, c, namespace, name); err != nil {
			return err
		}
		if err := r.set(d, now); err != nil {
			return err
		}
		return c.SubResource(r.of.Decision.Subresource).Update(ctx, r.object, client.FieldOwner(fieldManager))
	})
	switch {
	case r == nil:
		return refused(name.kindsText(), namespace, name.Name, d, err)
	case err != nil:
		return refused(r.Name, r.object.GetNamespace(), r.object.GetName(), d, err)
	}
	called := r.Name + " " + request.FullName(r.object.GetNamespace(), r.object.GetName())
	if waits := r.waits(d); waits != "" {
		fmt.Fprintf(out, "%s waits for more people: %s\n", called, waits)
	} else {
		fmt.Fprintf(out, "%s %s\n", d.Kind, called)
	}
	return nil
}

// refused returns an error that names the request whose decision the server refused, with
// the next step.
func refused(kind, namespace, name string, d Decision, err error) error {
	doing := fmt.Sprintf("setting %s on %s %s", d.Kind, kind, request.FullName(namespace, name))
	words := []string{"certplane", "explain", "csr"}
	if namespace != "" {
		words = []string{"certplane", "explain", "certificaterequest", "-n", namespace}
	}
	explain := print.CommandLine(print.Command(words, []string{name})...)
	var ambiguous *ambiguousError
	switch {
	case errors.As(err, &ambiguous), errors.Is(err, ErrNotFound), errors.Is(err, requestkind.ErrDecided), errors.Is(err, errReplaced):
		return err
	case served.IsMissing(err):
		return exit.WithNext(fmt.Errorf("%s: %w", doing, err), "Install the kinds of cert-manager.io there.")
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w %s %q", ErrNotFound, kind, name)
	case apierrors.IsForbidden(err):
		return exit.WithNext(fmt.Errorf("%s: %w", doing, err), "To see the required permissions: "+explain)
	default:
		return exit.Advise(doing, err)
	}
}
