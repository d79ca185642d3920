package decide

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/served"
	"github.com/certplane/certplane/internal/rights"
)

// decidable are the kinds of requests that people decide.
var decidable = []rights.Kind{rights.SigningRequests, rights.IssuerRequests}

// Name names a request as given by a user.
type Name struct {
	// Kind is its kind, or nil if the user has not given it.
	Kind *rights.Kind
	Name string
	// UID is the UID of the request that the user was shown; empty if none was shown.
	UID types.UID
}

// errReplaced reports that the name now belongs to another request than the shown one.
var errReplaced = errors.New("was deleted, and another request now has its name: no decision was made")

// ParseNames parses the arguments of a verb: NAME, KIND/NAME, or, like kubectl, KIND
// followed by names.
func ParseNames(args []string) ([]Name, error) {
	if len(args) == 0 {
		return nil, errors.New("name the requests: NAME, csr/NAME or certificaterequest/NAME")
	}
	if kind := findKind(args[0]); kind != nil && len(args) > 1 {
		var names []Name
		for _, arg := range args[1:] {
			if strings.Contains(arg, "/") {
				return nil, fmt.Errorf("%q: the kind was given before: %s", arg, args[0])
			}
			names = append(names, Name{Kind: kind, Name: arg})
		}
		return names, nil
	}
	var names []Name
	for _, arg := range args {
		called, name, found := strings.Cut(arg, "/")
		switch kind := findKind(called); {
		case !found && arg != "":
			names = append(names, Name{Name: arg})
		case kind == nil || name == "":
			return nil, fmt.Errorf("%q does not name a request that people decide: want NAME, csr/NAME or certificaterequest/NAME", arg)
		default:
			names = append(names, Name{Kind: kind, Name: name})
		}
	}
	return names, nil
}

// findKind returns the kind with a name, as users type it; nil if none matches.
func findKind(called string) *rights.Kind {
	for _, kind := range decidable {
		resource, group, _ := strings.Cut(called, ".")
		if kind.Is(resource) && (group == "" || group == kind.Group) {
			return &kind
		}
	}
	return nil
}

// kindsText returns the kinds that the name can refer to.
func (n Name) kindsText() string {
	if n.Kind != nil {
		return n.Kind.Name
	}
	return "CertificateSigningRequest or CertificateRequest"
}

// ambiguousError reports that a name matches two requests.
type ambiguousError struct{ namespace, name string }

func (e *ambiguousError) Error() string {
	return fmt.Sprintf("both a CertificateSigningRequest %q and, in the namespace %q, a CertificateRequest %[1]q exist: use csr/%[3]s or certificaterequest/%[3]s", e.name, e.namespace, e.name)
}

// find returns the request with a name. Without a kind in the name, it skips kinds that
// the server lacks or that the caller may not read.
func find(ctx context.Context, c client.Client, namespace string, name Name) (*undecided, error) {
	var found []*undecided
	var forbidden error
	for _, kind := range decidable {
		if name.Kind != nil && name.Kind.Name != kind.Name {
			continue
		}
		r, key := newUndecided(kind), client.ObjectKey{Name: name.Name}
		if kind.Namespaced {
			key.Namespace = namespace
		}
		switch err := c.Get(ctx, key, r.object); {
		case err == nil:
			found = append(found, r)
		case name.Kind == nil && (served.IsMissing(err) || apierrors.IsNotFound(err)):
		case name.Kind == nil && apierrors.IsForbidden(err):
			forbidden = err
		case apierrors.IsNotFound(err) && !served.IsMissing(err):
			return nil, notFound(kind, namespace, name.Name)
		default:
			return nil, err
		}
	}
	switch {
	case len(found) > 1:
		return nil, &ambiguousError{namespace, name.Name}
	case len(found) == 1 && name.UID != "" && name.UID != found[0].object.GetUID():
		return nil, fmt.Errorf("%s %s %w", found[0].Name, name.Name, errReplaced)
	case len(found) == 1:
		return found[0], nil
	case forbidden != nil:
		return nil, forbidden
	}
	return nil, fmt.Errorf("%w CertificateSigningRequest %q, and no CertificateRequest of that name in namespace %q", ErrNotFound, name.Name, namespace)
}

func notFound(kind rights.Kind, namespace, name string) error {
	if kind.Namespaced {
		return fmt.Errorf("%w %s %q in namespace %q", ErrNotFound, kind.Name, name, namespace)
	}
	return fmt.Errorf("%w %s %q", ErrNotFound, kind.Name, name)
}
