package check

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

func TestStoreSpace(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct {
		reason       string
		inUse, quota float64
		refuses      bool
		want         Result
		text         string
	}{
		{"half", 16 * mib, 32 * mib, false, OK, "16 of 32 MiB are in use"},
		{"nearly full", 26 * mib, 32 * mib, false, Warning, "filling up: 26 of 32 MiB are in use; the most by namespace a"},
		{"over the quota", 46 * mib, 32 * mib, false, Failed, "the store is full and refuses most writes: 46 of 32 MiB are in use; the most by namespace a"},
		{"etcd refuses", 16 * mib, 32 * mib, true, Failed, "the store is full"},
	} {
		got := storeSpace(tt.inUse, tt.quota, tt.refuses, "namespace a")
		if len(got) != 1 || got[0].Result != tt.want || !strings.Contains(got[0].Text, tt.text) {
			t.Errorf("%s: %+v", tt.reason, got)
		}
	}
	if got := storeSpace(0, 0, false, ""); got != nil {
		t.Errorf("not measured yet: %+v", got)
	}
	for line, want := range map[string]string{
		`certplane_store_quota_bytes 3.3554432e+07`:                          "quota_bytes",
		`certplane_store_tenant_bytes{class="namespace",tenant="a"} 1.2e+07`: "tenant_bytes",
		`certplane_store_disk_free_bytes 1e+09`:                              "disk_free_bytes",
		`certplane_store_size_bytes 1`:                                       "",
	} {
		got := storeMetric.FindStringSubmatch(line)
		if (got == nil) != (want == "") || got != nil && got[1] != want {
			t.Errorf("%s: %q", line, got)
		}
	}
}

// The disk of a server's data folder is reported before it is full.
func TestDiskSpace(t *testing.T) {
	for left, want := range map[uint64]Result{100 << 30: OK, 2<<30 - 1: Warning, 256 << 20: Warning, 100 << 20: Failed} {
		got := diskSpace(left, "the disk")
		if got.Result != want || !strings.HasPrefix(got.Text, "the disk has ") || (len(got.Next) > 0) != (want != OK) {
			t.Errorf("%d bytes: %+v", left, got)
		}
	}
}

// A certificate of the ACME server that waits is soon a warning, though its endpoints are ready.
func TestCertificateWaits(t *testing.T) {
	since := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	endpoint := &v1alpha1.AcmeEndpoint{Status: v1alpha1.AcmeEndpointStatus{Conditions: []metav1.Condition{
		{Type: v1alpha1.Ready, Status: metav1.ConditionTrue},
		{Type: v1alpha1.AcmeCertificateWaits, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(since), Message: "it waits"},
	}}}
	for age, want := range map[time.Duration]Result{time.Minute: OK, 2 * time.Minute: Warning} {
		c := &checker{now: since.Add(age)}
		if got := c.acmeEndpoint(endpoint); got.Result != want || want != OK && got.Text != "it waits" {
			t.Errorf("after %s: %+v", age, got)
		}
	}
}

// What no controller has looked at is soon a warning, and then a failure.
func TestUntouched(t *testing.T) {
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for age, want := range map[time.Duration]Result{5 * time.Second: OK, time.Minute: Warning, 3 * time.Minute: Failed} {
		c := &checker{now: created.Add(age)}
		if got := c.condition(v1alpha1.Ready, &metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created)}, nil); got.Result != want {
			t.Errorf("after %s: %+v", age, got)
		}
	}
}
