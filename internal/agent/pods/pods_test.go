package pods

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/agenthost"
)

// A status is written only when it has changed.
func TestStatus(t *testing.T) {
	start := metav1.NewTime(time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC))
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	steps := []struct {
		reason  string
		missing string
		news    bool
		since   time.Duration
	}{
		{"first", "no certificate", true, 0},
		{"the same", "no certificate", false, 0},
		{"another reason", "denied", true, 0},
		{"ready", "", true, 3 * time.Minute},
		{"still ready", "", false, 3 * time.Minute},
	}
	for i, step := range steps {
		now := metav1.NewTime(start.Add(time.Duration(i) * time.Minute))
		status, news := statusOf(pod, State{Missing: step.missing}, now)
		if news != step.news {
			t.Errorf("%s: news: %v", step.reason, news)
		}
		if got := status.Conditions[0].LastTransitionTime.Sub(start.Time); got != step.since {
			t.Errorf("%s: since %s, want %s", step.reason, got, step.since)
		}
		if status.Phase != corev1.PodRunning || status.ContainerStatuses[0].Ready != (step.missing == "") {
			t.Errorf("%s: %+v", step.reason, status)
		}
		pod.Status = status
	}
}

// The end of a certificate is in the status, and what is new of it is written.
func TestCertificates(t *testing.T) {
	now := metav1.NewTime(time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC))
	pod, end := &corev1.Pod{}, now.Add(time.Hour)
	for _, step := range []struct {
		reason, want string
		failure      string
		news         bool
	}{
		{"a certificate", "tls example.com/s expires 2030-05-17T13:00:00Z", "", true},
		{"the same", "tls example.com/s expires 2030-05-17T13:00:00Z", "", false},
		{"a refusal", "tls example.com/s expires 2030-05-17T13:00:00Z: denied", "denied", true},
	} {
		state := State{Certificates: []agenthost.Certificate{{Volume: "tls", Signer: "example.com/s", NotAfter: &end, Error: step.failure}}}
		status, news := statusOf(pod, state, now)
		if news != step.news || len(status.Conditions) != 2 || status.Conditions[1].Message != step.want {
			t.Errorf("%s: news %v, %+v", step.reason, news, status.Conditions)
		}
		pod.Status = status
	}
}
