package inventory

import (
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certplane/certplane/internal/process/collector"
)

// span is a value of ends_within, with the first day that is not within.
type span struct {
	name string
	days int64
}

// spans are all times: the last one has no end.
var spans = []span{{"ended", 0}, {"1d", 2}, {"7d", 8}, {"30d", 31}, {"later", 1 << 62}}

// metrics are those of an Index, and of revocations.
type metrics struct {
	*recordMetrics
	revoked, indexAge prometheus.Gauge
}

type recordMetrics struct{ certificates, unrenewed *prometheus.GaugeVec }

func newRecordMetrics(registry prometheus.Registerer) (*recordMetrics, error) {
	m := &recordMetrics{
		certificates: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "certplane", Subsystem: "inventory", Name: "certificates",
			Help: "Number of recorded certificates by the time until they end, to the day; each certificate counts in one value only.",
		}, []string{"ends_within"}),
		unrenewed: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "certplane", Subsystem: "inventory", Name: "unrenewed_certificates",
			Help: "Number of recorded certificates, by the kind of their request and by when they end, that have less than a fifth of their lifetime left and no newer certificate of the same signer, subject and names; without those of pods and nodes.",
		}, []string{"kind", "ends_within"}),
	}
	for _, one := range []**prometheus.GaugeVec{&m.certificates, &m.unrenewed} {
		if err := collector.Share(registry, one); err != nil {
			return nil, fmt.Errorf("registering the metrics of the inventory: %w", err)
		}
	}
	return m, nil
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	records, err := newRecordMetrics(registry)
	if err != nil {
		return nil, err
	}
	m := &metrics{
		recordMetrics: records,
		revoked: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "certplane", Subsystem: "revocation", Name: "certificates",
			Help: "Number of certificates that are known as revoked.",
		}),
		indexAge: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "certplane", Subsystem: "revocation", Name: "index_age_seconds",
			Help: "Time since the server last knew all revocations in its store, in seconds.",
		}),
	}
	for _, one := range []*prometheus.Gauge{&m.revoked, &m.indexAge} {
		if err := collector.Share(registry, one); err != nil {
			return nil, fmt.Errorf("registering the metrics of revocations: %w", err)
		}
	}
	return m, nil
}

// unrenewedKinds are the kinds of requests whose certificates are expected to be renewed.
var unrenewedKinds = []string{"CertificateRequest", "CertificateSigningRequest"}

// showUnrenewed sets the metric of certificates that are not renewed.
func (m *recordMetrics) showUnrenewed(soon map[identity]ending, now time.Time) {
	const day = 24 * time.Hour
	numbers := map[[2]string]int{}
	for _, e := range soon {
		switch left := e.notAfter.Sub(now); {
		case left <= day:
			numbers[[2]string{e.kind, "1d"}]++
		case left <= unrenewedDays*day:
			numbers[[2]string{e.kind, "7d"}]++
		}
	}
	for _, kind := range unrenewedKinds {
		for _, within := range []string{"1d", "7d"} {
			m.unrenewed.WithLabelValues(kind, within).Set(float64(numbers[[2]string{kind, within}]))
		}
	}
}

// count sets the metrics.
func (x *Index) count() {
	today := dayOf(x.now())
	numbers := make([]int, len(spans))
	x.mu.RLock()
	for number, d := range x.days {
		n := slices.IndexFunc(spans, func(s span) bool { return number-today < s.days })
		numbers[n] += len(d.fresh) + d.packed - d.denials
	}
	x.mu.RUnlock()
	for n, span := range spans {
		x.metrics.certificates.WithLabelValues(span.name).Set(float64(numbers[n]))
	}
}
