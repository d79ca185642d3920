package pods

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A status is written only when it has changed.
func TestStatus(t *testing.T) {
	start := metav1.NewTime(time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC))
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	steps := []struct {
		reason  string
		ready   bool
		message string
		news    bool
		since   time.Duration
	}{
		{"first", false, "no certificate", true, 0},
		{"the same", false, "no certificate", false, 0},
		{"another reason", false, "denied", true, 0},
		{"ready", true, "", true, 3 * time.Minute},
		{"still ready", true, "", false, 3 * time.Minute},
	}
	for i, step := range steps {
		now := metav1.NewTime(start.Add(time.Duration(i) * time.Minute))
		status, news := statusOf(pod, step.ready, step.message, now)
		if news != step.news {
			t.Errorf("%s: news: %v", step.reason, news)
		}
		if got := status.Conditions[0].LastTransitionTime.Sub(start.Time); got != step.since {
			t.Errorf("%s: since %s, want %s", step.reason, got, step.since)
		}
		if status.Phase != corev1.PodRunning || status.ContainerStatuses[0].Ready != step.ready {
			t.Errorf("%s: %+v", step.reason, status)
		}
		pod.Status = status
	}
}
