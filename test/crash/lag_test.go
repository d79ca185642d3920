package crash

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/acme"
)

// The caches of one of two servers learn of each write late. Whichever of them answers: an
// order is not pending when all its authorizations were seen valid, these are valid when it
// was seen ready, and no state goes back.
func TestOrdersWithLateCaches(t *testing.T) {
	t.Parallel()
	const lag = 50 * time.Millisecond
	nothing := func(string) bool { return true }
	r := newReplicas(t, func(i int, endpoint string) string {
		p := newStoreProxy(t, endpoint, nothing, nothing)
		p.lag = func(method string) time.Duration {
			if i == 1 && method == watchMethod {
				return lag
			}
			return 0
		}
		return p.address
	})
	r.warm()
	const clients, orders = 3, 4
	var group sync.WaitGroup
	var looks atomic.Int64
	for i := range clients {
		c := r.register()
		group.Go(func() {
			for n := range orders {
				at := i<<16 + n*3
				if err := r.watched(c, &looks, address(at), address(at+1), address(at+2)); err != nil {
					t.Errorf("client %d, order %d: %v", i, n, err)
				}
			}
		})
	}
	group.Wait()
	t.Logf("%d orders were looked at %d times", clients*orders, looks.Load())
}

// watched proves an order while a client polls it all the time.
func (r *replicas) watched(c *acme.Client, looks *atomic.Int64, addresses ...string) error {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	order, err := c.AuthorizeOrder(ctx, acme.IPIDs(addresses...))
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		_, err := r.proveOrder(ctx, c, order)
		done <- err
	}()
	look := view{ctx: ctx, client: c, order: order}
	for look.last != acme.StatusReady {
		looks.Add(1)
		if err := look.again(); err != nil {
			cancel()
			return errors.Join(err, <-done)
		}
	}
	return <-done
}

// view is what a client has seen of an order.
type view struct {
	ctx    context.Context
	client *acme.Client
	order  *acme.Order
	last   string
	valid  [8]bool
}

// again looks at the order between two looks at its authorizations.
func (v *view) again() error {
	before, _, err := v.authorizations()
	if err != nil {
		return err
	}
	latest, err := v.client.GetOrder(v.ctx, v.order.URI)
	if err != nil {
		return err
	}
	after, states, err := v.authorizations()
	switch {
	case err != nil:
		return err
	case before && latest.Status == acme.StatusPending:
		return errors.New("all authorizations are valid, and the order is pending")
	case !after && latest.Status == acme.StatusReady:
		return fmt.Errorf("the order is ready, and the authorizations are %s", states)
	case v.last == acme.StatusReady && latest.Status != v.last:
		return fmt.Errorf("the order was ready, and is %s", latest.Status)
	}
	v.last = latest.Status
	return nil
}

// authorizations reports whether all are valid.
func (v *view) authorizations() (all bool, states string, err error) {
	var seen []string
	all = true
	for i, url := range v.order.AuthzURLs {
		authz, err := v.client.GetAuthorization(v.ctx, url)
		if err != nil {
			return false, "", err
		}
		valid := authz.Status == acme.StatusValid
		if v.valid[i] && !valid {
			return false, "", fmt.Errorf("the authorization was valid, and is %s", authz.Status)
		}
		v.valid[i] = valid
		all = all && valid
		seen = append(seen, authz.Status)
	}
	return all, strings.Join(seen, ", "), nil
}
