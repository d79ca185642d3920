package acmeapprove

import (
	"context"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/note"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/approval"
	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requests"
)

// kind is a kind of requests that orders can have.
type kind struct {
	of       v1alpha1.RequestKind
	name     string // in the references of orders
	resource schema.GroupResource
	empty    func() client.Object
	// undecided reports whether nobody has approved or denied a request.
	undecided  func(client.Object) bool
	view       func(client.Object) request.Request
	conditions func(client.Object) []quorum.Condition
	list       func(context.Context, client.Reader) ([]client.Object, error)
	// decide writes a decision into a copy of the request.
	decide func(ctx context.Context, api client.Client, o client.Object, d decision, now time.Time) error
}

// decision is an approval or a denial.
type decision struct {
	denied          bool
	reason, message string
}

func signingRequests() kind {
	type csr = certificatesv1.CertificateSigningRequest
	return kind{
		of: v1alpha1.CertificateSigningRequests, name: string(v1alpha1.CertificateSigningRequests), resource: signingRequestResource,
		empty: func() client.Object { return &csr{} },
		undecided: func(o client.Object) bool {
			c, ok := o.(*csr)
			return ok && approval.Undecided(c)
		},
		view:       func(o client.Object) request.Request { return request.FromCSR(o.(*csr)) },
		conditions: policies.ConditionsOf,
		list: func(ctx context.Context, from client.Reader) ([]client.Object, error) {
			list := &certificatesv1.CertificateSigningRequestList{}
			err := from.List(ctx, list, client.UnsafeDisableDeepCopy)
			return pointers[csr, *csr](list.Items), err
		},
		decide: func(ctx context.Context, api client.Client, o client.Object, d decision, _ time.Time) error {
			c := o.(*csr).DeepCopy()
			condition := certificatesv1.CertificateSigningRequestCondition{
				Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: d.reason, Message: note.Fit(d.message),
			}
			if d.denied {
				condition.Type = certificatesv1.CertificateDenied
			}
			c.Status.Conditions = append(c.Status.Conditions, condition)
			return api.SubResource("approval").Update(ctx, c, client.FieldOwner(Name))
		},
	}
}

func certificateRequests() kind {
	type cr = cmv1.CertificateRequest
	return kind{
		of: request.CertificateRequests, name: cmv1.CertificateRequestKind, resource: certificateRequestResource,
		empty: func() client.Object { return &cr{} },
		undecided: func(o client.Object) bool {
			c, ok := o.(*cr)
			return ok && requests.Undecided(c)
		},
		view:       func(o client.Object) request.Request { return request.FromCertificateRequest(o.(*cr)) },
		conditions: policies.ConditionsOf,
		list: func(ctx context.Context, from client.Reader) ([]client.Object, error) {
			list := &cmv1.CertificateRequestList{}
			err := from.List(ctx, list, client.UnsafeDisableDeepCopy)
			return pointers[cr, *cr](list.Items), err
		},
		decide: func(ctx context.Context, api client.Client, o client.Object, d decision, now time.Time) error {
			c, condition := o.(*cr).DeepCopy(), cmv1.CertificateRequestConditionApproved
			if d.denied {
				condition = cmv1.CertificateRequestConditionDenied
			}
			if issuance.SetDecision(c, condition, issuance.Finding{Reason: d.reason, Message: note.Fit(d.message)}, now) != nil {
				return nil // it has been decided
			}
			return api.Status().Update(ctx, c, client.FieldOwner(Name))
		},
	}
}

// pointers returns pointers to items.
func pointers[T any, P interface {
	*T
	client.Object
}](items []T) []client.Object {
	var all []client.Object
	for i := range items {
		all = append(all, P(&items[i]))
	}
	return all
}
