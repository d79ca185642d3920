package agenthost

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestListsCondition(t *testing.T) {
	begin := time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)
	fresh := RevocationLists{Volume: "tls", Signer: "example.com/a", Path: "crl.pem", Numbers: []string{"17", "18"}, ThisUpdate: begin, NextUpdate: begin.AddDate(0, 0, 7)}
	missing := RevocationLists{Volume: "tls", Signer: "example.com/a", Path: "crl.der", Error: "no list of CN=root: sign one with certplane crl sign"}
	overdue := fresh
	overdue.Error = "the list of CN=a ends soon"
	const line = "tls example.com/a crl.pem numbers 17,18 from 2030-05-17T12:00:00Z until 2030-05-24T12:00:00Z"
	for _, tt := range []struct {
		reason  string
		all     []RevocationLists
		status  corev1.ConditionStatus
		message string
	}{
		{"fresh", []RevocationLists{fresh}, corev1.ConditionTrue, line},
		{"missing", []RevocationLists{fresh, missing}, corev1.ConditionFalse, line + "\ntls example.com/a crl.der missing: no list of CN=root: sign one with certplane crl sign"},
		{"overdue", []RevocationLists{overdue}, corev1.ConditionFalse, line + ": the list of CN=a ends soon"},
	} {
		condition := ListsConditionOf(tt.all)
		if condition.Status != tt.status || condition.Message != tt.message {
			t.Errorf("%s: %s, %q", tt.reason, condition.Status, condition.Message)
		}
		if diff := cmp.Diff(tt.all, RevocationListsOf(corev1.PodStatus{Conditions: []corev1.PodCondition{condition}})); diff != "" {
			t.Errorf("%s (-written +read):\n%s", tt.reason, diff)
		}
	}
	for _, text := range []string{"", "tls example.com/a crl.pem", "tls example.com/a crl.pem numbers 1", "tls example.com/a crl.pem numbers 1 from today until 2030-05-24T12:00:00Z"} {
		if got := RevocationListsOf(corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: ListsCondition, Message: text}}}); len(got) > 0 {
			t.Errorf("%q: %v", text, got)
		}
	}
}
