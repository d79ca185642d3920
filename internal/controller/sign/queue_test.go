package sign

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

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
# HELP certplane_signing_queue_length Number of approved requests that wait for a worker of their signer, without those that are tried again later, by signer.
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
