package controllers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
)

// written counts the events of each type.
type written struct {
	events.EventRecorder
	count map[string]int
}

func (w written) Eventf(_, _ runtime.Object, kind, _, _, _ string, _ ...any) { w.count[kind]++ }

func TestSparingRecorder(t *testing.T) {
	recorder := written{count: map[string]int{}}
	sparing := sparingRecorder{EventRecorder: recorder, limit: flowcontrol.NewFakeNeverRateLimiter()}
	for _, kind := range []string{corev1.EventTypeNormal, corev1.EventTypeWarning, corev1.EventTypeWarning} {
		sparing.Eventf(nil, nil, kind, "Reason", "Action", "note")
	}
	if recorder.count[corev1.EventTypeNormal] != 0 || recorder.count[corev1.EventTypeWarning] != 2 {
		t.Errorf("over the limit, these were written: %v", recorder.count)
	}
	sparing.limit = flowcontrol.NewFakeAlwaysRateLimiter()
	sparing.Eventf(nil, nil, corev1.EventTypeNormal, "Reason", "Action", "note")
	if recorder.count[corev1.EventTypeNormal] != 1 {
		t.Errorf("under the limit: %v", recorder.count)
	}
}
