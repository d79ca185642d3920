// Package decide approves and denies CertificateRequests by hand.
package decide

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/served"
	"github.com/certplane/certplane/internal/cli/exit"
	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// Decision is a decision and its reason.
type Decision struct {
	// Kind is Approved or Denied.
	Kind cmv1.CertificateRequestConditionType
	// Reason is one word for what has decided, Message is a text for people.
	Reason, Message string
}

// Validate reports what is missing.
func (d Decision) Validate() error {
	if d.Reason == "" || d.Message == "" {
		return errors.New("--reason and --message must not be empty: they are what others see of the decision")
	}
	return nil
}

// fieldManager is the manager of the decision in managed fields.
const fieldManager = "certplane"

// Connect returns a client for Requests. It does not call the server yet.
func Connect(cfg *rest.Config) (client.Client, error) {
	kinds := runtime.NewScheme()
	if err := certmanager.AddToScheme(kinds); err != nil {
		return nil, fmt.Errorf("making the scheme: %w", err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateRequestKind), meta.RESTScopeNamespace)
	connected, err := client.New(cfg, client.Options{Scheme: kinds, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("connecting to the server: %w", err)
	}
	return connected, nil
}

// ErrNotFound says that a request with this name does not exist.
var ErrNotFound = errors.New("there is no CertificateRequest")

// Requests approves or denies the requests with these names, and prints what has
// become of each: approvals can be votes of which more are needed. After a failure
// it goes on with the others, and returns the error at the end.
func Requests(ctx context.Context, c client.Client, namespace string, names []string, d Decision, now time.Time, out io.Writer) error {
	var failed error
	for _, name := range names {
		cr, err := one(ctx, c, client.ObjectKey{Namespace: namespace, Name: name}, d, now)
		switch awaiting := certmanager.RequestCondition(cr, quorum.AwaitingApproval); {
		case err != nil:
			failed = errors.Join(failed, err)
		case certmanager.RequestCondition(cr, d.Kind) == nil && awaiting != nil:
			fmt.Fprintf(out, "CertificateRequest %s/%s waits for more people: %s\n", namespace, name, awaiting.Message)
		default:
			fmt.Fprintf(out, "%s CertificateRequest %s/%s\n", d.Kind, namespace, name)
		}
	}
	return failed
}

// one decides about a request, and returns what the server has made of it.
func one(ctx context.Context, c client.Client, key client.ObjectKey, d Decision, now time.Time) (*cmv1.CertificateRequest, error) {
	cr := &cmv1.CertificateRequest{}
	return cr, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		*cr = cmv1.CertificateRequest{}
		if err := c.Get(ctx, key, cr); err != nil {
			return refused(key, d, err)
		}
		if err := issuance.SetDecision(cr, d.Kind, issuance.Finding{Reason: d.Reason, Message: d.Message}, now); err != nil {
			return err
		}
		return refused(key, d, c.Status().Update(ctx, cr, client.FieldOwner(fieldManager)))
	})
}

// refused returns an error that names the request whose decision the server
// refused, and what to do; nil if err is nil.
func refused(key client.ObjectKey, d Decision, err error) error {
	doing := fmt.Sprintf("setting %s on CertificateRequest %s", d.Kind, key)
	switch {
	case err == nil:
		return nil
	case served.IsMissing(err):
		return exit.WithNext(fmt.Errorf("%s: %w", doing, err), "Install the kinds of cert-manager.io there.")
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w %q in namespace %q", ErrNotFound, key.Name, key.Namespace)
	case apierrors.IsForbidden(err):
		return exit.WithNext(fmt.Errorf("%s: %w", doing, err), fmt.Sprintf("To see which permissions it requires: certplane explain certificaterequest -n %s %s", key.Namespace, key.Name))
	default:
		return exit.Advise(doing, err)
	}
}
