package agenthost

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestCondition(t *testing.T) {
	end := time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)
	fresh := Certificate{Volume: "tls", Signer: "example.com/a", NotAfter: &end}
	late := Certificate{Volume: "tls", Signer: "example.com/b", NotAfter: &end, Error: "Denied: No: not you"}
	missing := Certificate{Volume: "db", Signer: "example.com/c", Error: "not issued yet"}
	for _, tt := range []struct {
		reason  string
		all     []Certificate
		status  corev1.ConditionStatus
		message string
	}{
		{"fresh", []Certificate{fresh}, corev1.ConditionTrue, "tls example.com/a expires 2030-05-17T12:00:00Z"},
		{"not refreshed", []Certificate{fresh, late}, corev1.ConditionFalse,
			"tls example.com/a expires 2030-05-17T12:00:00Z\ntls example.com/b expires 2030-05-17T12:00:00Z: Denied: No: not you"},
		{"missing", []Certificate{missing}, corev1.ConditionFalse, "db example.com/c missing: not issued yet"},
	} {
		condition := ConditionOf(tt.all)
		if condition.Status != tt.status || condition.Message != tt.message {
			t.Errorf("%s: %s, %q", tt.reason, condition.Status, condition.Message)
		}
		read := CertificatesOf(corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Message: tt.message}, condition}})
		if diff := cmp.Diff(tt.all, read); diff != "" {
			t.Errorf("%s (-written +read):\n%s", tt.reason, diff)
		}
	}
}

// A signer's message cannot add lines, and only so much text.
func TestLongErrors(t *testing.T) {
	line := Certificate{Volume: "tls", Signer: "example.com/a", Error: "a\nb " + strings.Repeat("ü", maxError)}.String()
	if !strings.HasPrefix(line, "tls example.com/a missing: a b ü") || strings.Contains(line, "\n") || len(line) > maxError+64 {
		t.Errorf("line of %d bytes: %q", len(line), line)
	}
}

func TestOtherText(t *testing.T) {
	for _, text := range []string{"", "\n", "tls", "tls example.com/a", "tls example.com/a since long ago", "tls example.com/a expires soon"} {
		if got := CertificatesOf(corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: Condition, Message: text}}}); len(got) > 0 {
			t.Errorf("%q: %v", text, got)
		}
	}
}
