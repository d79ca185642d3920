package acmeserver

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmeserver/attempts"
	"github.com/certplane/certplane/internal/process/keylock"
)

// atOnce has a controller of this process obtain certificates before orders are stored as
// processing: the end of an order is then stored with its finalization. Several processes
// cannot do so, because they could create different requests for an order. A nil atOnce
// obtains none.
type atOnce struct {
	desk *attempts.Desk
	lend func(client.Object) (end func())
	// orders are those that are being finalized.
	orders keylock.Locks
}

func (s *Server) newAtOnce() *atOnce {
	if !s.Sole || s.Lend == nil || s.Attempts == nil {
		return nil
	}
	return &atOnce{desk: s.Attempts, lend: s.Lend}
}

// issuance is the finalization of one order.
type issuance struct {
	*atOnce
	ctx context.Context
	// ends are called at the end, tell once the order is stored with the last status.
	ends []func()
	tell func()
}

// begin begins the finalization of an order. Its caller must end it.
func (a *atOnce) begin(ctx context.Context, order string) (*issuance, error) {
	i := &issuance{atOnce: a, ctx: ctx}
	if a == nil {
		return i, nil
	}
	release, err := a.orders.Lock(ctx, order)
	if err != nil {
		return nil, errBusy
	}
	i.ends = []func(){release}
	return i, nil
}

// status returns the status to store for an order that is finalized. The approver and the
// policies read the order with the status finalized until it is stored.
func (i *issuance) status(o *v1alpha1.AcmeOrder, finalized *v1alpha1.AcmeOrderStatus) *v1alpha1.AcmeOrderStatus {
	if i.atOnce == nil {
		return finalized
	}
	lent := o.DeepCopy()
	lent.Status = *finalized
	i.ends = append(i.ends, i.lend(lent))
	status, tell := i.desk.Issue(i.ctx, lent)
	if status == nil {
		return finalized
	}
	i.tell = tell
	return status
}

// stored is called when the order is stored.
func (i *issuance) stored() {
	if i.tell != nil {
		i.tell()
	}
}

func (i *issuance) end() {
	for _, end := range i.ends {
		defer end()
	}
}
