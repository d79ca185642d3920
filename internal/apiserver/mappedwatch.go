package apiserver

import (
	"sync"

	"k8s.io/apimachinery/pkg/watch"
)

// mappedWatch is a watch that applies a function to each event of another watch. Unlike
// watch.Filter, it ends when it is stopped, even if its last event was not received.
type mappedWatch struct {
	watch.Interface
	events  chan watch.Event
	stop    sync.Once
	stopped chan struct{}
}

// mapEvents returns a mappedWatch of next. One goroutine calls change, in the order of
// the events.
func mapEvents(next watch.Interface, change func(watch.Event) watch.Event) watch.Interface {
	w := &mappedWatch{Interface: next, events: make(chan watch.Event), stopped: make(chan struct{})}
	go w.run(change)
	return w
}

func (w *mappedWatch) run(change func(watch.Event) watch.Event) {
	defer close(w.events)
	for event := range w.Interface.ResultChan() {
		select {
		case w.events <- change(event):
		case <-w.stopped:
			return
		}
	}
}

// ResultChan implements watch.Interface.
func (w *mappedWatch) ResultChan() <-chan watch.Event { return w.events }

// Stop implements watch.Interface.
func (w *mappedWatch) Stop() {
	w.stop.Do(func() { close(w.stopped) })
	w.Interface.Stop()
}
