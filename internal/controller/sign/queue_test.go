package sign

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/pki"
)

// changingCA gives access to its subscribers.
type changingCA struct {
	fakeCA
	changed func(*pki.Authority)
}

func (c *changingCA) Subscribe(changed func(*pki.Authority)) func() {
	c.changed = changed
	return func() {}
}

// Requests that have waited for a CA are retried at once with the next one.
func TestNewCABringsWaitingRequests(t *testing.T) {
	waiting, undecided, foreign := approved(t), approved(t), approved(t)
	waiting.Status.Conditions = append(waiting.Status.Conditions, condition{Type: certificates.ConditionDelayed, Status: "True"})
	undecided.Name, undecided.Status.Conditions = "undecided", nil
	foreign.Name, foreign.Spec.SignerName = "foreign", servingSigner
	r := &reconciler{cache: newAPI(t, waiting, undecided, foreign), selects: ours}
	ca, q := &changingCA{}, newQueue(signerName, nil)("test", backOff())
	defer q.ShutDown()

	if err := r.retryAfter(AnyChange(ca.Subscribe)).Start(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	later := reconcile.Request{NamespacedName: client.ObjectKey{Name: "alice"}}
	q.AddAfter(later, time.Hour)
	if q.Len() != 0 {
		t.Fatalf("%d requests before there is a CA", q.Len())
	}
	ca.changed(nil)
	if q.Len() != 1 {
		t.Fatalf("%d requests with the new CA, want the one that waits", q.Len())
	}
	if got, _ := q.Get(); got != later {
		t.Errorf("got %v", got)
	}
	if err := r.retryAfter(nil).Start(t.Context(), q); err != nil {
		t.Errorf("a CA that does not change: %v", err)
	}
}

// Each request has its own back-off.
func TestBackOff(t *testing.T) {
	limit, one := backOff(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "one"}}
	var got []time.Duration
	for range 13 {
		got = append(got, limit.When(one))
	}
	if got[0] != 200*time.Millisecond || got[1] != 400*time.Millisecond || got[12] != 5*time.Minute {
		t.Errorf("delays %v", got)
	}
	if other := limit.When(reconcile.Request{NamespacedName: client.ObjectKey{Name: "other"}}); other != 200*time.Millisecond {
		t.Errorf("the first delay of another request is %v", other)
	}
}

func TestQueueLength(t *testing.T) {
	registry := prometheus.NewRegistry()
	first := newQueue(signerName, registry)("first", backOff())
	defer first.ShutDown()
	second := newQueue(servingSigner, registry)("second", backOff())
	defer second.ShutDown()
	for _, name := range []string{"a", "b", "a"} {
		first.Add(reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
	}
	want := `
# HELP certplane_signing_queue_length Number of approved requests that wait for a worker of their signer, not counting those that are retried later, by signer.
# TYPE certplane_signing_queue_length gauge
certplane_signing_queue_length{signer="kubernetes.io/kube-apiserver-client"} 2
certplane_signing_queue_length{signer="kubernetes.io/kubelet-serving"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	again := newQueue(signerName, registry)("another server's", backOff())
	again.ShutDown()
}
