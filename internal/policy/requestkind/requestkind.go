// Package requestkind has the table of the kinds of requests for certificates: what
// programs do with a request of any kind is one row of it.
package requestkind

import (
	"errors"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

// Object is an object of the API, List a list of such objects: the interfaces of
// clients, without the clients.
type (
	Object interface {
		metav1.Object
		runtime.Object
	}
	List interface {
		metav1.ListInterface
		runtime.Object
	}
)

// Kind is a kind of requests. Its functions take objects of its Go type only, as New
// returns them.
type Kind struct {
	Name v1alpha1.RequestKind
	// Short is the short name of the resource.
	Short    string
	Resource schema.GroupResource
	// Version is the version of the Go type. Versions are all versions with the same fields,
	// the preferred one first.
	Version    string
	Versions   []string
	Namespaced bool
	// Custom is set for a custom resource, which servers can lack.
	Custom bool
	// BySigner is set if lists can be selected by the field spec.signerName.
	BySigner bool
	// Decision is nil if the requests need no approval.
	Decision *Decision
	// Granted is the type of the condition that means approved; of requests that need no
	// approval, the one that means issued.
	Granted string

	New     func() Object
	NewList func() List
	// Signer returns the requested signer or issuer, for people.
	Signer func(Object) string
	// Conditions returns the conditions.
	Conditions func(Object) []quorum.Condition
	// GrantedAt returns since when the request has the condition Granted; the zero time if
	// it does not have it.
	GrantedAt func(Object) time.Time
	// Refuses reports whether a condition means that the request gets no certificate.
	Refuses func(quorum.Condition) bool
	// Certificate returns the issued certificate in PEM, perhaps with a chain.
	Certificate func(Object) []byte
	// CA returns the CA in the answer, in PEM; nil if there is none.
	CA func(Object) []byte
	// Content returns a copy with only the metadata and the spec, requested by a user.
	Content func(Object, request.Requester) Object

	is func(any) bool
}

// Decision is how requests of a kind are approved and denied.
type Decision struct {
	// Subresource is the subresource that decisions are written to.
	Subresource string
	// ByDecider: the reason of a decision names the decider.
	ByDecider bool
	// ByPolicy are the reasons of approvals by policies.
	ByPolicy []string
	// Undecided reports whether a request still has to be approved or denied: it has no
	// decision, and it has not ended without one.
	Undecided func(Object) bool
	// Set sets a condition in an object, which it changes.
	Set func(Object, quorum.Condition, time.Time)
}

// Of returns the kind of a request; nil if object is none.
func Of(object any) *Kind {
	return find(func(k *Kind) bool { return k.is(object) })
}

// Named returns the kind with a name; nil if there is none.
func Named(name v1alpha1.RequestKind) *Kind {
	return find(func(k *Kind) bool { return k.Name == name })
}

// OfResource returns the kind with a resource; nil if there is none.
func OfResource(resource schema.GroupResource) *Kind {
	return find(func(k *Kind) bool { return k.Resource == resource })
}

func find(wanted func(*Kind) bool) *Kind {
	if i := slices.IndexFunc(All, wanted); i >= 0 {
		return All[i]
	}
	return nil
}

// View returns what a request asks for.
func (k *Kind) View(object Object) request.Request {
	r, _ := request.From(object)
	return r
}

// Items returns the objects of a list, which they share with it.
func Items[O Object](list List) []O {
	items := make([]O, 0, meta.LenList(list))
	_ = meta.EachListItem(list, func(item runtime.Object) error { // it fails for objects that are no lists
		items = append(items, item.(O))
		return nil
	})
	return items
}

// The types of the conditions that decide about requests that can be approved.
const (
	Approved = string(certificatesv1.CertificateApproved)
	Denied   = string(certificatesv1.CertificateDenied)
)

// ErrDecided means that a request is decided.
var ErrDecided = errors.New("a decision cannot be changed")

// Decide approves or denies a request with a condition of the type Approved or Denied,
// which it sets in the object. A request is decided once: Decide fails with an
// ErrDecided, and changes nothing, if it has been decided already.
func (k *Kind) Decide(object Object, decision quorum.Condition, now time.Time) error {
	for _, before := range k.Conditions(object) {
		if before.Type == Approved || before.Type == Denied {
			return fmt.Errorf("%s %q is %s already, with reason %q: %w", k.Name, object.GetName(), before.Type, before.Reason, ErrDecided)
		}
	}
	k.Decision.Set(object, decision, now)
	return nil
}

// Undecided reports whether object is a request that still has to be approved or denied.
func Undecided(object Object) bool {
	k := Of(object)
	return k != nil && k.Decision != nil && k.Decision.Undecided(object)
}
