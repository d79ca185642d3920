package fairqueue

import (
	"fmt"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/tenant"
	"github.com/certplane/certplane/internal/tenant/fairshare"
)

func newRequest(user, name string) *certificatesv1.CertificateSigningRequest {
	csr := &certificatesv1.CertificateSigningRequest{}
	csr.Name, csr.ResourceVersion, csr.Spec.Username = name, "1", user
	return csr
}

// A tenant that requests one certificate need not wait for one that requests a
// thousand.
func TestTurns(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	h := New(clock)
	q := priorityqueue.New[reconcile.Request]("test")
	defer q.ShutDown()
	create := func(user, name string, known bool) {
		h.Create(t.Context(), event.CreateEvent{Object: newRequest(user, name), IsInInitialList: known}, q)
	}
	create("old", "known", true)
	for i := range 2 {
		csr := newRequest("admin", fmt.Sprintf("admin-%d", i))
		csr.Spec.Groups = []string{"system:masters"}
		h.Create(t.Context(), event.CreateEvent{Object: csr}, q)
	}
	for i := range 1000 {
		create(fmt.Sprintf("system:serviceaccount:team-a:account-%d", i%100), fmt.Sprintf("a-%d", i), false)
	}
	create("system:serviceaccount:team-b:default", "b-0", false)
	create("system:serviceaccount:team-b:default", "b-1", false)
	approved := newRequest("system:node:edge-1", "node")
	approved.ResourceVersion = "2"
	h.Update(t.Context(), event.UpdateEvent{ObjectOld: newRequest("system:node:edge-1", "node"), ObjectNew: approved}, q)

	var order []string
	for range 1006 {
		item, _ := q.Get()
		order = append(order, item.Name)
		q.Done(item)
	}
	place := map[string]int{}
	for i, name := range order {
		place[name] = i
	}
	for name, want := range map[string]int{"admin-0": 0, "admin-1": 1, "a-0": 2, "b-0": 3, "node": 4, "a-1": 5, "b-1": 6, "a-2": 7, "a-99": 104, "known": 105, "a-100": 106, "a-999": 1005} {
		if place[name] != want {
			t.Errorf("%s has place %d, want %d", name, place[name], want)
		}
	}
}

// Requests of long ago do not count.
func TestTurnsAreForgotten(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	h, who := New(clock), fairshare.Tenant{Class: tenant.ClassUser, Name: "a"}
	for _, step := range []struct {
		passes time.Duration
		want   int
	}{{0, 0}, {0, 1}, {window, 2}, {window, 1}, {window / 2, 2}, {2 * window, 0}, {10 * window, 0}} {
		clock.SetTime(clock.Now().Add(step.passes))
		if got := h.place(who); got != step.want {
			t.Errorf("after %v: place %d, want %d", step.passes, got, step.want)
		}
	}
}
