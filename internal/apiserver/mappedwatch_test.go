package apiserver

import (
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// TestStoppedMappedWatchEnds tests that a watch that was stopped ends although nobody
// takes its last event. Otherwise run, which a goroutine of each watch calls, hangs.
func TestStoppedMappedWatchEnds(t *testing.T) {
	changes := watch.NewFakeWithChanSize(1, false)
	changes.Add(&certificatesv1.CertificateSigningRequest{})
	watched := &mappedWatch{Interface: changes, events: make(chan watch.Event), stopped: make(chan struct{})}
	watched.Stop()
	watched.run(func(event watch.Event) watch.Event { return event })
	if _, open := <-watched.ResultChan(); open {
		t.Error("a watch that was stopped has events")
	}
}
