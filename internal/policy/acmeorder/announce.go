package acmeorder

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// Limits of the latest orders that an account records: the caches of all servers contain
// an order after announcedFor.
const (
	announcedFor = time.Minute
	maxAnnounced = 500
)

// Announce returns the status of an account that is about to make an order. The server
// must store it before it creates the order, with the resource version of the account that
// the limits were checked against. Of two servers that do so at once, one gets a conflict
// and checks again.
func Announce(a *v1alpha1.AcmeAccount, name string, replaces bool, now time.Time) *v1alpha1.AcmeAccountStatus {
	s := Seen(a, now)
	if s == nil {
		s = a.Status.DeepCopy()
	}
	s.Ordered = true
	s.NewOrders = slices.DeleteFunc(s.NewOrders, func(o v1alpha1.AcmeNewOrder) bool { return o.Name == name || !isAnnounced(&o, now) })
	s.NewOrders = append(s.NewOrders, v1alpha1.AcmeNewOrder{Name: name, Time: *whole(now), Replaces: replaces})
	s.NewOrders = s.NewOrders[max(0, len(s.NewOrders)-maxAnnounced):]
	return s
}

func isAnnounced(o *v1alpha1.AcmeNewOrder, now time.Time) bool { return isRecent(o.Time, now) }

func isRecent(t metav1.Time, now time.Time) bool { return now.Sub(t.Time).Abs() < announcedFor }

// AnnouncesAccounts reports whether new accounts of an endpoint with so many are announced:
// until a few hundred are left, no servers together pass the limit.
func AnnouncesAccounts(e *v1alpha1.AcmeEndpointSpec, accounts int) bool {
	return accounts+maxAnnounced >= int(e.Limits.MaxAccounts)
}

// AnnouncedAccounts returns the names of the accounts of an endpoint that are being made, or
// were a moment ago.
func AnnouncedAccounts(s *v1alpha1.AcmeEndpointStatus, now time.Time) []string {
	var names []string
	for i := range s.NewAccounts {
		if isRecent(s.NewAccounts[i].Time, now) {
			names = append(names, s.NewAccounts[i].Name)
		}
	}
	return names
}

// AnnounceAccount records an account that is about to be made. The server must store it
// before it creates the account, with the resource version of the endpoint that the limit
// was checked against.
func AnnounceAccount(s *v1alpha1.AcmeEndpointStatus, name string, now time.Time) {
	s.NewAccounts = slices.DeleteFunc(s.NewAccounts, func(a v1alpha1.AcmeNewAccount) bool { return !isRecent(a.Time, now) })
	s.NewAccounts = append(s.NewAccounts, v1alpha1.AcmeNewAccount{Name: name, Time: *whole(now)})
	s.NewAccounts = s.NewAccounts[max(0, len(s.NewAccounts)-maxAnnounced):]
}

// WithAnnounced returns the cached orders of an account, and the announced orders that are
// not in the cache yet, except for the order that is being made.
func WithAnnounced(cached []*v1alpha1.AcmeOrder, a *v1alpha1.AcmeAccount, making string, now time.Time) []*v1alpha1.AcmeOrder {
	known := map[string]bool{making: true}
	for _, o := range cached {
		known[o.Name] = true
	}
	orders := slices.Clone(cached)
	for i := range a.Status.NewOrders {
		announced := &a.Status.NewOrders[i]
		if known[announced.Name] || !isAnnounced(announced, now) {
			continue
		}
		o := &v1alpha1.AcmeOrder{
			ObjectMeta: metav1.ObjectMeta{Name: announced.Name, CreationTimestamp: announced.Time},
			Status:     v1alpha1.AcmeOrderStatus{Expires: whole(announced.Time.Add(announcedFor))},
		}
		if announced.Replaces {
			o.Spec.Replaces = "announced"
		}
		orders = append(orders, o)
	}
	return orders
}
