package issue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/tenant/fairqueue"
)

// What a namespace has begun is finished before it begins more, and a namespace with
// one Certificate waits for neither of another one with hundreds.
func TestOrder(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	o := order{starts: fairqueue.New(clock), finishes: fairqueue.New(clock)}
	q := priorityqueue.New[reconcile.Request]("test")
	defer q.ShutDown()
	in := func(namespace string) *cmv1.Certificate {
		return &cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}
	}
	const many = 300
	for i := range many {
		add(q, types.NamespacedName{Namespace: "known", Name: fmt.Sprint(i)}, knownPriority)
		add(q, types.NamespacedName{Namespace: "starts", Name: fmt.Sprint(i)}, o.start(in("busy")))
	}
	for i := range many {
		add(q, types.NamespacedName{Namespace: "finishes", Name: fmt.Sprint(i)}, o.finish(in("busy")))
	}
	add(q, types.NamespacedName{Namespace: "calm", Name: "start"}, o.start(in("calm")))
	add(q, types.NamespacedName{Namespace: "known and begun", Name: "start"}, begunPriority)

	last, seen := map[string]int{}, []string{}
	for place := range 3*many + 2 {
		item, _ := q.Get()
		seen = append(seen, item.Namespace)
		last[item.Namespace] = place
		q.Done(item)
	}
	if last["calm"] > 3 {
		t.Errorf("a calm namespace waits for %d others", last["calm"])
	}
	// The first turns of a namespace count more than those that come later.
	half := seen[:last["finishes"]+1]
	if started := count(half, "starts"); started > many/2 {
		t.Errorf("%d of %d were begun before all %d were finished that could be", started, many, many)
	}
	if first := slices.Index(seen, "known"); last["known and begun"] > first {
		t.Error("what was being issued at the start comes after what need not be issued")
	}
}

func count(all []string, what string) (n int) {
	for _, one := range all {
		if one == what {
			n++
		}
	}
	return n
}
