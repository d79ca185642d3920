package syncmetrics

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestCodes(t *testing.T) {
	notFound := apierrors.NewNotFound(schema.GroupResource{}, "x")
	for _, tc := range []struct {
		reason string
		err    error
		want   string
	}{
		{"all is well", nil, "200"},
		{"the API's answer", notFound, "404"},
		{"wrapped", fmt.Errorf("writing: %w", notFound), "404"},
		{"an answer without a code", &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonUnknown}}, "500"},
		{"no answer", errors.New("connection refused"), "500"},
	} {
		registry := prometheus.NewRegistry()
		m, err := New(registry, "publisher", "an object")
		if err != nil {
			t.Fatal(err)
		}
		m.Observe(tc.err, time.Second)
		if got := testutil.ToFloat64(m.total.WithLabelValues(tc.want)); got != 1 {
			t.Errorf("%s: not counted as %s", tc.reason, tc.want)
		}
		if count, err := testutil.GatherAndCount(registry, "publisher_sync_total", "publisher_sync_duration_seconds"); err != nil || count != 2 {
			t.Errorf("%s: %d metrics, %v", tc.reason, count, err)
		}
	}
}

func TestTwoServersInOneProcess(t *testing.T) {
	registry := prometheus.NewRegistry()
	one, err := New(registry, "publisher", "an object")
	if err != nil {
		t.Fatal(err)
	}
	two, err := New(registry, "publisher", "an object")
	if err != nil || one.total != two.total {
		t.Errorf("they count apart: %v", err)
	}
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "other_sync_total"}))
	if _, err := New(registry, "other", "an object"); err == nil {
		t.Error("metrics that collide with others were accepted")
	}
}
