package fairqueue

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/process/worker"
)

// What waits keeps its place: Orders that are held back by one limit, and may all
// be tried again at the same moment, are tried namespace by namespace, however
// many Orders one namespace has.
func TestTurnsLastOverWaits(t *testing.T) {
	const many, few = 100, 5
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	limited := time.Now().Add(500 * time.Millisecond)
	var mu sync.Mutex
	seen, order := map[string]bool{}, []string{}
	w, err := worker.New(ctx, "test", reconcile.Func(func(_ context.Context, r reconcile.Request) (reconcile.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		if !seen[r.String()] {
			seen[r.String()] = true
			return reconcile.Result{RequeueAfter: max(time.Until(limited), time.Millisecond)}, nil
		}
		if order = append(order, r.String()); len(order) == 1 {
			time.Sleep(time.Until(limited.Add(500 * time.Millisecond))) // until all are due
		}
		if len(order) == many+few {
			stop()
		}
		return reconcile.Result{}, nil
	}), worker.Options{Concurrency: 1})
	if err != nil {
		t.Fatal(err)
	}
	handler := New(clock.RealClock{})
	err = w.Watch(source.Func(func(ctx context.Context, q queue) error {
		for i := range many + few {
			o := &acmev1.Order{}
			o.Namespace, o.Name, o.ResourceVersion = "many", fmt.Sprint(i), "1"
			if i >= many {
				o.Namespace = "few"
			}
			handler.Create(ctx, event.CreateEvent{Object: o}, q)
		}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if len(order) != many+few {
		t.Fatalf("%d of %d were tried again", len(order), many+few)
	}
	for i, name := range order {
		if strings.HasPrefix(name, "few/") && i > 2*few+1 { // the first is tried before all are due
			t.Errorf("%s has place %d", name, i)
		}
	}
}
