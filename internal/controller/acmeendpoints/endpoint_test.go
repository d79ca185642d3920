package acmeendpoints

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

func TestSoonAfter(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		reason string
		since  time.Duration
		want   time.Duration
	}{
		{"just now", 0, time.Second},
		{"a clock that goes back", -time.Hour, time.Second},
		{"for a while", 4 * time.Second, 4 * time.Second},
		{"for long", time.Hour, 30 * time.Second},
	} {
		conditions := []metav1.Condition{{Type: "Other", LastTransitionTime: metav1.NewTime(now.Add(-time.Minute))}, {Type: v1alpha1.Ready, LastTransitionTime: metav1.NewTime(now.Add(-test.since))}}
		if got := soonAfter(conditions, now); got != test.want {
			t.Errorf("%s: %v, want %v", test.reason, got, test.want)
		}
	}
	if got := soonAfter(nil, now); got != time.Second {
		t.Errorf("never before: %v", got)
	}
}
