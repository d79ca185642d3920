package approving

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// carried returns how the request of an order is approved because a person has
// approved an earlier one, or why it is not. Who that was, when, and what was approved,
// is sealed: orders are not believed about it.
func (r *orders) carried(ctx context.Context, a acmeorder.Approval) (*acmeorder.Said, string, error) {
	key := client.ObjectKey{Namespace: a.Order.Namespace, Name: a.Order.Status.CarryFrom}
	from := &v1alpha1.AcmeOrder{}
	if err := r.Client.Get(ctx, key, from); err != nil {
		return nil, "the approved order no longer exists", client.IgnoreNotFound(err)
	}
	record, err := r.sealed(from)
	if err != nil {
		return nil, err.Error(), nil
	}
	carried := acmeorder.Carried{From: from, Terms: &record.Order.Terms, Time: record.Time}
	if err := carried.Check(a, r.Clock.Now()); err != nil {
		return nil, err.Error(), nil
	}
	may, err := policies.MayStillApprove(ctx, policies.Reviews(r.Client), record, a.Request)
	if err != nil || !may {
		return nil, fmt.Sprintf("%s, who approved the order %s, no longer has the right to approve", record.User, key), err
	}
	return &acmeorder.Said{
		Reason:  acmeorder.ReasonCarriedOver,
		Message: fmt.Sprintf("%s approved the order %s of the account at %s, which was for the same names", record.User, key, record.Time.UTC().Format(time.RFC3339)),
	}, "", nil
}

// sealed returns the opened seal of the approval of an order.
func (r *orders) sealed(from *v1alpha1.AcmeOrder) (quorum.Record, error) {
	open, approval := r.Policies.OpenSealed(), from.Status.Approval
	if open == nil || approval == nil || approval.Sealed == "" {
		return quorum.Record{}, fmt.Errorf("the approval of the order %s has no valid seal", client.ObjectKeyFromObject(from))
	}
	record, err := open(approval.Sealed)
	switch {
	case err != nil:
		return quorum.Record{}, fmt.Errorf("the approval of the order %s has no valid seal: %w", client.ObjectKeyFromObject(from), err)
	case record.Order == nil:
		return quorum.Record{}, fmt.Errorf("the approval of the order %s was only for one request", client.ObjectKeyFromObject(from))
	}
	return record, nil
}

// supersededBy returns the approved later order that an order names in its status; nil if
// that is not so.
func (r *orders) supersededBy(ctx context.Context, o *v1alpha1.AcmeOrder) (*v1alpha1.AcmeOrder, error) {
	if o.Status.SupersededBy == "" {
		return nil, nil
	}
	by := &v1alpha1.AcmeOrder{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: o.Status.SupersededBy}, by); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if !acmeorder.Supersedes(by, o, r.Clock.Now()) {
		return nil, nil
	}
	return by, nil
}
