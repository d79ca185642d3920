package apitest

import (
	"runtime"
	"testing"
	"time"
)

// Time in which others use the processors hardly counts.
func TestStopwatchOfBusyMachine(t *testing.T) {
	watch, begin := StartStopwatch(t), time.Now()
	ended := make(chan struct{})
	for range 6 * runtime.GOMAXPROCS(0) {
		go func() {
			defer func() { ended <- struct{}{} }()
			for time.Since(begin) < 2*time.Second { //nolint:revive // it uses a processor
			}
		}()
	}
	for range 6 * runtime.GOMAXPROCS(0) {
		<-ended
	}
	if counted, passed := watch.Elapsed(), time.Since(begin); counted <= 0 || counted > passed/2 {
		t.Errorf("%v of %v were counted", counted, passed)
	}
}
