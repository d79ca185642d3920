package inventory

import (
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certplane/certplane/internal/collector"
)

// span is a value of ends_within, with the first day that is not within.
type span struct {
	name string
	days int64
}

// spans are all times: the last one has no end.
var spans = []span{{"ended", 0}, {"1d", 2}, {"7d", 8}, {"30d", 31}, {"later", 1 << 62}}

func newMetrics(registry prometheus.Registerer) (*prometheus.GaugeVec, error) {
	certificates := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "certplane", Subsystem: "inventory", Name: "certificates",
		Help: "Number of recorded certificates, by when they end, to the day; each value is without those of the ones before.",
	}, []string{"ends_within"})
	if err := collector.Share(registry, &certificates); err != nil {
		return nil, fmt.Errorf("registering the metrics of the inventory: %w", err)
	}
	return certificates, nil
}

// count sets the metrics.
func (i *Inventory) count() {
	today := dayOf(i.Now())
	numbers := make([]int, len(spans))
	i.mu.RLock()
	for number, d := range i.days {
		n := slices.IndexFunc(spans, func(s span) bool { return number-today < s.days })
		numbers[n] += len(d.fresh) + d.packed
	}
	i.mu.RUnlock()
	for n, span := range spans {
		i.certificates.WithLabelValues(span.name).Set(float64(numbers[n]))
	}
}
