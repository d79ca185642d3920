// Package collector registers metrics that the parts of a process share.
package collector

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Share registers *metric with registry. If one of the same name and shape is
// registered already, made for another signer, controller or server of this
// process, *metric becomes that one. With a nil registry, *metric stays as it
// is and is not exported. Share fails when the name is taken by another kind of
// metric.
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
