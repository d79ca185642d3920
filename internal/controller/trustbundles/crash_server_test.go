package trustbundles_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/controller/trustbundles"
	"github.com/certplane/certplane/internal/run/server"
)

// quiet is a server without controllers.
var quiet = &apitest.Shared{Options: []func(*server.Config){func(c *server.Config) { c.Controllers = []string{} }}}

var errKilled = errors.New("killed")

// A process that ends before or after any of its writes takes no root out of the target before
// its overlap has ended.
func TestKilled(t *testing.T) {
	w := worldOf(t, quiet.Start(t))
	base, err := client.NewWithWatch(w.Admin(t), client.Options{Scheme: w.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	writes, stop, after := 0, 0, false
	write := func(do func() error) error {
		if writes++; writes != stop {
			return do()
		}
		if after {
			return errors.Join(errKilled, do())
		}
		return errKilled
	}
	killed := interceptor.NewClient(base, interceptor.Funcs{
		Create: func(ctx context.Context, api client.WithWatch, object client.Object, options ...client.CreateOption) error {
			return write(func() error { return api.Create(ctx, object, options...) })
		},
		Update: func(ctx context.Context, api client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			return write(func() error { return api.Update(ctx, object, options...) })
		},
		SubResourceUpdate: func(ctx context.Context, api client.Client, of string, object client.Object, options ...client.SubResourceUpdateOption) error {
			return write(func() error { return api.SubResource(of).Update(ctx, object, options...) })
		},
	})
	versions, err := discovery.NewDiscoveryClientForConfig(w.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	for round := range 8 { // up to three writes and one more, before and after
		stop, after = round/2+1, round%2 == 1
		name := fmt.Sprintf("round%d", round)
		a, b, c := newCA(t, name+"a"), newCA(t, name+"b"), newCA(t, name+"c")
		stored := w.secret(t, name, a.pem)
		w.create(t, w.bundle(t, name+"-trust", fmt.Sprintf(`[{"secret": {"name": %q, "key": "ca.crt"}}]`, name)))
		pass := func() error {
			writes = 0
			fresh := trustbundles.NewReconciler(trustbundles.Config{
				Client: killed, Versions: versions.ServerResourcesForGroupVersionWithContext, Events: events.NewFakeRecorder(100), Clock: clock.RealClock{}, Settings: trustbundles.DefaultSettings(),
			})
			_, err := fresh.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: w.namespace, Name: name + "-trust"}})
			return err
		}
		finish := func() {
			t.Helper()
			was := stop
			stop = 0
			if err := pass(); err != nil {
				t.Fatal(err)
			}
			stop = was
		}
		target := func() string {
			object := &corev1.ConfigMap{}
			w.get(t, object, w.namespace, name+"-trust")
			return subjects(object.Data["ca.crt"])
		}
		finish()
		for _, next := range []ca{b, c} {
			stored.Data["ca.crt"] = []byte(next.pem)
			if err := w.Update(t.Context(), stored); err != nil {
				t.Fatal(err)
			}
			before := target()
			if err := pass(); err != nil && !errors.Is(err, errKilled) || err == nil && stop < 4 {
				t.Fatalf("round %d: %v", round, err)
			}
			for name := range strings.FieldsSeq(before) {
				if !strings.Contains(target(), name) {
					t.Errorf("round %d: %s has gone: %s", round, name, target())
				}
			}
		}
		before := target()
		finish()
		for name := range strings.FieldsSeq(before + " " + names(a, c)) {
			if !strings.Contains(target(), name) {
				t.Errorf("round %d: %s has gone: %s", round, name, target())
			}
		}
	}
}
