package storespace

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certplane/certplane/internal/process/collector"
)

type metrics struct {
	size, inUse, quota, full *prometheus.GaugeVec
	diskFree, tenant         *prometheus.GaugeVec
	compactions, reclaims    *prometheus.CounterVec
	refused                  *prometheus.CounterVec
}

// newMetrics makes the metrics and registers them; with nil they are not
// exported.
func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "certplane", Subsystem: "store", Name: name, Help: help}, labels)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "certplane", Subsystem: "store", Name: name, Help: help}, labels)
	}
	m := &metrics{
		size:        gauge("size_bytes", "Size of the database file of the store; of the largest member of an external etcd."),
		inUse:       gauge("in_use_bytes", "What holds something in the database file of the store."),
		quota:       gauge("quota_bytes", "Size in use from which on the store counts as full (etcd.quotaMiB)."),
		full:        gauge("refusing", "1 while new objects are refused because the store is full, or etcd refuses to write, else 0."),
		diskFree:    gauge("disk_free_bytes", "Free space of the file system of the store, if the store is in this server."),
		tenant:      gauge("tenant_bytes", "Size in use by each of the largest tenants, when it was last counted.", "class", "tenant"),
		compactions: counter("compactions_total", "Number of compactions because the store had grown, in addition to the one every five minutes."),
		reclaims:    counter("defragmentations_total", "Number of times that the database file was made smaller."),
		refused:     counter("refused_writes_total", "Number of writes that were refused, by reason: full (the store) or share (of the object's tenant), and class of that tenant.", "reason", "class"),
	}
	return m, errors.Join(
		collector.Share(registry, &m.size), collector.Share(registry, &m.inUse), collector.Share(registry, &m.quota), collector.Share(registry, &m.full),
		collector.Share(registry, &m.diskFree), collector.Share(registry, &m.tenant),
		collector.Share(registry, &m.compactions), collector.Share(registry, &m.reclaims), collector.Share(registry, &m.refused),
	)
}

func (m *metrics) show(r Reading, quota int64, largest []holding) {
	m.size.WithLabelValues().Set(float64(r.Size))
	m.inUse.WithLabelValues().Set(float64(r.InUse))
	m.quota.WithLabelValues().Set(float64(quota))
	refusing := 0.0
	if levelOf(r, quota) >= full {
		refusing = 1
	}
	m.full.WithLabelValues().Set(refusing)
	if r.DiskFree != nil {
		m.diskFree.WithLabelValues().Set(float64(*r.DiskFree))
	}
	m.tenant.Reset()
	for _, h := range largest {
		m.tenant.WithLabelValues(string(h.tenant.Class), h.tenant.Name).Set(float64(h.bytes))
	}
}
