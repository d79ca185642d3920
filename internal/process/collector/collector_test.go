package collector

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func newCounter(label string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "some_total", Help: "Some."}, []string{label})
}

func TestShare(t *testing.T) {
	registry := prometheus.NewRegistry()
	first, second := newCounter("signer"), newCounter("signer")
	for _, metric := range []**prometheus.CounterVec{&first, &second} {
		if err := Share(registry, metric); err != nil {
			t.Fatal(err)
		}
	}
	if first != second {
		t.Error("two metrics of one name")
	}
}

func TestShareWithNobody(t *testing.T) {
	metric := newCounter("signer")
	own := metric
	if err := Share(nil, &metric); err != nil || metric != own {
		t.Errorf("error %v", err)
	}
}

func TestShareWithAnother(t *testing.T) {
	registry := prometheus.NewRegistry()
	first, other := newCounter("signer"), newCounter("reason")
	if err := Share(registry, &first); err != nil {
		t.Fatal(err)
	}
	if err := Share(registry, &other); err == nil {
		t.Error("one name has two sets of labels")
	}
	gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "some_total", Help: "Some."}, []string{"signer"})
	if err := Share(registry, &gauge); err == nil {
		t.Error("a gauge became a counter")
	}
}
