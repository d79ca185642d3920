// Package collector registers metrics that the parts of a process share.
package collector

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Share registers *metric with registry. If another signer, controller or server of this
// process has already registered a metric of the same name and shape, Share sets *metric to
// that one. With a nil registry, Share does nothing and *metric is not exported. Share fails
// if the name belongs to another kind of metric.
func Share[C prometheus.Collector](registry prometheus.Registerer, metric *C) error {
	if registry == nil {
		return nil
	}
	err := registry.Register(*metric)
	var already prometheus.AlreadyRegisteredError
	if !errors.As(err, &already) {
		return err
	}
	existing, ok := already.ExistingCollector.(C)
	if !ok {
		return err
	}
	*metric = existing
	return nil
}
