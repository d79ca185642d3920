package controllermanager

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/inprocess"
)

// reportEvery is how often the log names the caches that are not filled.
const reportEvery = time.Minute

// waits reports which caches of a process are not filled yet: controllers wait for them
// without a limit, and all that read from one cache wait for all of its kinds. It is safe
// for concurrent use.
type waits struct {
	mu        sync.Mutex // guards informers
	informers []namedInformer
}

type namedInformer struct {
	kind string
	toolscache.SharedIndexInformer
}

// tracking returns how informers are made whose state is reported. make is nil for
// ordinary ones.
func (w *waits) tracking(make inprocess.NewInformer) inprocess.NewInformer {
	if make == nil {
		make = toolscache.NewSharedIndexInformer
	}
	return func(lists toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		informer := make(lists, example, resync, indexers)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.informers = append(w.informers, namedInformer{kindOf(example), informer})
		return informer
	}
}

func kindOf(example runtime.Object) string {
	if metadata, ok := example.(*metav1.PartialObjectMetadata); ok {
		return metadata.Kind
	}
	if kind := example.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	return reflect.TypeOf(example).Elem().Name()
}

// unfilled returns the kinds whose caches are not filled, in order, and forgets the
// caches that are filled or stopped.
func (w *waits) unfilled() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.informers = slices.DeleteFunc(w.informers, func(i namedInformer) bool { return i.HasSynced() || i.IsStopped() })
	var kinds []string
	for _, informer := range w.informers {
		kinds = append(kinds, informer.kind)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// Start reports until ctx ends.
func (w *waits) Start(ctx context.Context) error {
	ticker := time.NewTicker(reportEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if kinds := w.unfilled(); len(kinds) > 0 {
			klog.FromContext(ctx).Info(fmt.Sprintf("Controllers wait until all objects of these kinds are read: %s", strings.Join(kinds, ", ")))
		}
	}
}
