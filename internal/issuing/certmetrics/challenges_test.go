package certmetrics

import (
	"context"
	"strings"
	"testing"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Each Challenge has a series for each state. Texts of others are not labels.
func TestChallenges(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := New(registry)
	if err != nil {
		t.Fatal(err)
	}
	stop := m.ShowChallenges(func(context.Context) []*acmev1.Challenge {
		return []*acmev1.Challenge{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1"},
			Spec:       acmev1.ChallengeSpec{DNSName: "a.example.com", Type: acmev1.ACMEChallengeTypeDNS01},
			Status: acmev1.ChallengeStatus{
				State: acmev1.Pending, Processing: true, Presented: true, Reason: "Waiting for DNS-01 challenge propagation: request 17 failed",
			},
		}}
	})
	const name = "certmanager_certificate_challenge_status"
	want := "# HELP " + name + " State of the Challenge: 1 for its current state. The reason is the kind of its obstacle, not the text.\n# TYPE " + name + " gauge\n"
	for _, state := range []string{"", "errored", "expired", "invalid", "pending", "processing", "ready", "valid"} {
		value := "0"
		if state == "pending" {
			value = "1"
		}
		want += name + `{domain="a.example.com",name="web-1",namespace="shop",processing="true",reason="SelfCheck",status="` + state + `",type="DNS-01"} ` + value + "\n"
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), name); err != nil {
		t.Error(err)
	}
	stop()
	if n, err := testutil.GatherAndCount(registry, name); n != 0 || err != nil {
		t.Errorf("%d series after the end, %v", n, err)
	}
}
