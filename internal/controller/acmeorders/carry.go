package acmeorders

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/process/worker"
)

// carries reports whether a person approved an order and the approval may count for later
// orders.
func carries(object client.Object) bool {
	o, ok := object.(*v1alpha1.AcmeOrder)
	return ok && o.Status.Approval != nil && o.Status.Approval.Sealed != ""
}

// approvedByPeople passes orders when a person has approved them.
func approvedByPeople() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false }, // those that wait come themselves
		UpdateFunc:  func(e event.UpdateEvent) bool { return carries(e.ObjectNew) && !carries(e.ObjectOld) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// waitingBeside returns the orders of the same account that are processing.
func (r *reconciler) waitingBeside(ctx context.Context, approved client.Object) []reconcile.Request {
	others, err := r.beside(ctx, approved.(*v1alpha1.AcmeOrder))
	if err != nil {
		worker.CannotWake(ctx, err, "Cannot list the other AcmeOrders of an account; the controller tries again later")
	}
	var waiting []reconcile.Request
	for _, other := range others {
		if isProcessing(other) {
			waiting = append(waiting, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(other)})
		}
	}
	return waiting
}

// beside returns the other orders of an account that are processing, or that a person
// has approved.
func (r *reconciler) beside(ctx context.Context, o *v1alpha1.AcmeOrder) ([]*v1alpha1.AcmeOrder, error) {
	list := &v1alpha1.AcmeOrderList{}
	if err := r.cache.List(ctx, list, client.InNamespace(o.Namespace), client.MatchingFields{byAccount: o.Spec.Account}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the AcmeOrders of the account %s: %w", o.Spec.Account, err)
	}
	var others []*v1alpha1.AcmeOrder
	for i := range list.Items {
		if list.Items[i].UID != o.UID {
			others = append(others, &list.Items[i])
		}
	}
	return others, nil
}

// compareWithOthers records that the approval of an earlier order should count for the
// waiting order, or that a later order was approved. The approver decides on the
// consequences.
func (p *pass) compareWithOthers(ctx context.Context, endpoint *acmeorder.Endpoint) error {
	if endpoint.Spec().Approval.CarryOver.Duration <= 0 {
		return nil
	}
	others, err := p.beside(ctx, p.o)
	if err != nil {
		return err
	}
	now := p.Clock.Now()
	if from := acmeorder.CarryOver(p.o, others, endpoint.Spec(), now); from != nil {
		return p.carryFrom(ctx, from)
	}
	if by := acmeorder.IsSupersededBy(p.o, others, endpoint.Spec(), now); by != nil {
		p.set(acmeorder.Supersede(p.o, by))
	}
	return nil
}

// carryFrom lists the order in the earlier order as one for which its approval counts,
// before it records the earlier order in its own status.
func (p *pass) carryFrom(ctx context.Context, from *v1alpha1.AcmeOrder) error {
	stored := &v1alpha1.AcmeOrder{}
	if err := p.Client.Get(ctx, client.ObjectKeyFromObject(from), stored); err != nil {
		return err
	}
	counted := acmeorder.CountCarried(stored, p.o)
	if counted == nil {
		return nil // what is cached is out of date
	}
	stored.Status = *counted
	if err := p.Client.Status().Update(ctx, stored, client.FieldOwner(Name)); err != nil {
		return err
	}
	p.set(acmeorder.CarryFrom(p.o, stored))
	return nil
}

// endCarrying records a denial in the orders whose approvals would still count for later
// orders. This happens before the order itself ends, so that the denial cannot be lost.
func (p *pass) endCarrying(ctx context.Context, reason string) error {
	if !acmeorder.EndsCarrying(reason) {
		return nil
	}
	others, err := p.beside(ctx, p.o)
	if err != nil {
		return err
	}
	for _, other := range others {
		if acmeorder.EndCarrying(other, p.o, p.Clock.Now()) == nil {
			continue
		}
		stored := &v1alpha1.AcmeOrder{}
		if err := p.Client.Get(ctx, client.ObjectKeyFromObject(other), stored); client.IgnoreNotFound(err) != nil {
			return err
		}
		s := acmeorder.EndCarrying(stored, p.o, p.Clock.Now())
		if s == nil {
			continue
		}
		stored.Status = *s
		if err := p.Client.Status().Update(ctx, stored, client.FieldOwner(Name)); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// maxOthers is the number of approvals that an order keeps in addition to the last one: as
// many as policies can require.
const maxOthers = 8

// recordApproval records that the request is approved, and the person who approved it.
func (p *pass) recordApproval(made *made) {
	if made.standing.Approved == nil {
		return
	}
	now := p.Clock.Now()
	by := v1alpha1.AcmeOrderApproval{Time: metav1.NewTime(now)}
	if made.standing.Approved.Reason == acmeorder.ReasonCarriedOver {
		by.CarriedFrom = p.o.Status.CarryFrom
	} else if p.Open != nil {
		for _, e := range quorum.Examine(policies.ConditionsOf(made.object), made.view, p.Open) {
			if e.Err == nil && e.Record.Order != nil {
				if by.Sealed != "" && len(by.SealedOthers) < maxOthers {
					by.SealedOthers = append(by.SealedOthers, by.Sealed)
				}
				by.By, by.Time, by.Sealed = e.Record.User, metav1.NewTime(e.Record.Time), quorum.SealedIn(e.Condition)
			}
		}
	}
	if p.set(acmeorder.RecordApproval(p.o, by, now)) && by.CarriedFrom != "" {
		p.report(corev1.EventTypeNormal, eventCarried, "The approval of the order "+by.CarriedFrom+" counts for this one: "+made.standing.Approved.Message)
	}
}
