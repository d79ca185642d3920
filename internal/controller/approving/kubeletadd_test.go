package approving

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func newManager(t *testing.T) ctrl.Manager {
	t.Helper()
	// Nothing is dialled before the manager starts.
	mgr, err := ctrl.NewManager(&rest.Config{Host: "http://127.0.0.1:1"}, ctrl.Options{
		Scheme:     scheme.Scheme,
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

func TestSeveralServersInOneProcess(t *testing.T) {
	registry := prometheus.NewRegistry()
	for range 2 {
		if err := AddKubelets(newManager(t), KubeletsConfig{Metrics: registry}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAddRefuses(t *testing.T) {
	const want = "approval.concurrency: -1 must be at least 1"
	if err := AddKubelets(newManager(t), KubeletsConfig{Settings: Settings{Concurrency: -1}}); err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
	taken := prometheus.NewRegistry()
	taken.MustRegister(prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "certplane_approval_approved_total"}, []string{"other"}))
	if err := AddKubelets(newManager(t), KubeletsConfig{Metrics: taken}); err == nil {
		t.Error("metrics that collide with others were accepted")
	}
}

// Only requests that begin to wait are looked at, so that neither the changes
// of a request nor its end cost anything.
func TestArrivals(t *testing.T) {
	waiting := newRequest(t, node)
	again := waiting.DeepCopy()
	again.UID = "another"
	approved := waiting.DeepCopy()
	approved.Status.Conditions = []condition{{Type: "Approved", Status: "True"}}
	foreign := waiting.DeepCopy()
	foreign.Spec.SignerName = "example.com/signer"

	passes := begins(waits)
	created := func(c *csr) bool { return passes.Create(event.CreateEvent{Object: c}) }
	updated := func(from, to *csr) bool { return passes.Update(event.UpdateEvent{ObjectOld: from, ObjectNew: to}) }
	tests := []struct {
		reason    string
		got, want bool
	}{
		{"new", created(waiting), true},
		{"of another signer", created(foreign), false},
		{"decided before we came", created(approved), false},
		{"changed in what does not matter", updated(waiting, waiting), false},
		{"approved", updated(waiting, approved), false},
		{"made again, and the end of the first went unseen", updated(waiting, again), true},
		{"made again after it was decided", updated(approved, again), true},
		{"deleted", passes.Delete(event.DeleteEvent{Object: waiting}), false},
		{"asked for", passes.Generic(event.GenericEvent{Object: waiting}), true},
	}
	for _, tc := range tests {
		if tc.got != tc.want {
			t.Errorf("%s: passes %v, want %v", tc.reason, tc.got, tc.want)
		}
	}
}

// However many requests fail, no other request has to wait.
func TestBackOffIsEachOnesOwn(t *testing.T) {
	limiter := backOff()
	named := func(name string) reconcile.Request {
		return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
	}
	first := limiter.When(named("first"))
	for i := range 10_000 {
		limiter.When(named(fmt.Sprintf("bad-%d", i%1000)))
	}
	if got := limiter.When(named("good")); got != first {
		t.Errorf("the first retry among failing ones is in %v, want %v", got, first)
	}
}
