package podsync

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certplane/certplane/internal/agent/credential"
	"github.com/certplane/certplane/internal/agent/status"
	"github.com/certplane/certplane/internal/agent/volume"
)

// Metrics are the metrics of an agent.
type Metrics struct {
	writes, requests, answers, actions *prometheus.CounterVec
}

// NewMetrics registers the metrics. Those about states are read from the board.
func NewMetrics(registry prometheus.Registerer, board *status.Board) (*Metrics, error) {
	m := &Metrics{
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "certplane_agent_volume_writes_total", Help: "Volumes that were written: replaced, repaired or failed.",
		}, []string{"result"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "certplane_agent_requests_total", Help: "Number of sent PodCertificateRequests, by the server's answer.",
		}, []string{"signer_name", "result"}),
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "certplane_agent_answers_total", Help: "Number of finished PodCertificateRequests, by outcome.",
		}, []string{"signer_name", "result"}),
		actions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "certplane_agent_actions_total", Help: "Commands and signals after a refresh.",
		}, []string{"result"}),
	}
	for _, collector := range []prometheus.Collector{m.writes, m.requests, m.answers, m.actions, states{board}} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func result(err error) string {
	if err != nil {
		return "failed"
	}
	return "ok"
}

func (m *Metrics) wrote(change volume.Change, err error) {
	switch {
	case err != nil:
		m.writes.WithLabelValues("failed").Inc()
	case change == volume.Replaced:
		m.writes.WithLabelValues("replaced").Inc()
	case change != volume.None:
		m.writes.WithLabelValues("repaired").Inc()
	}
}

func (m *Metrics) acted(err error) { m.actions.WithLabelValues(result(err)).Inc() }

func (m *Metrics) sent(signer string, err error) {
	m.requests.WithLabelValues(signer, result(err)).Inc()
}

// decided counts the requests that ended with a decision.
func (m *Metrics) decided(signer string, before, after credential.Record) {
	if before.Pending == nil || after.Pending != nil {
		return
	}
	kind := "Issued"
	if after.Failure != nil {
		kind = string(after.Failure.Kind)
	}
	m.answers.WithLabelValues(signer, kind).Inc()
}

// states exports the states of the certificates at the time of a scrape.
type states struct{ board *status.Board }

var (
	statesDesc = prometheus.NewDesc("certplane_agent_podcertificate_states",
		"Certificates by signer and state, as kubelet_podcertificate_states.", []string{"signer_name", "state"}, nil)
	expiryDesc = prometheus.NewDesc("certplane_agent_expiration_timestamp_seconds",
		"Expiry of a certificate or a token.", []string{"namespace", "pod", "volume", "path", "source"}, nil)
	listLabels  = []string{"namespace", "pod", "volume", "path", "ca"}
	listEndDesc = prometheus.NewDesc("certplane_agent_revocation_list_next_update_seconds", "End of a revocation list in a file.", listLabels, nil)
	listNumDesc = prometheus.NewDesc("certplane_agent_revocation_list_number", "Number of a revocation list in a file.", listLabels, nil)
)

var (
	reachableDesc = prometheus.NewDesc("certplane_agent_server_reachable",
		"1 if the server answered the last call and accepts the credentials of the agent; else 0.", nil, nil)
	contactDesc = prometheus.NewDesc("certplane_agent_server_last_contact_timestamp_seconds",
		"Time of the server's last answer.", nil, nil)
	identityDesc = prometheus.NewDesc("certplane_agent_identity_expiration_timestamp_seconds",
		"Expiry of the host's own certificate.", nil, nil)
)

// aboutServer exports the state of the host's connection to its server.
func aboutServer(host status.Host, metrics chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
	}
	reachable := 0.0
	if host.Server.LastContact != nil && host.Server.Error == "" {
		reachable = 1
	}
	gauge(reachableDesc, reachable)
	if t := host.Server.LastContact; t != nil {
		gauge(contactDesc, float64(t.Unix()))
	}
	if t := host.Identity.NotAfter; t != nil {
		gauge(identityDesc, float64(t.Unix()))
	}
}

func (states) Describe(descs chan<- *prometheus.Desc) {
	descs <- reachableDesc
	descs <- contactDesc
	descs <- identityDesc
	descs <- statesDesc
	descs <- expiryDesc
	descs <- listEndDesc
	descs <- listNumDesc
}

func (s states) Collect(metrics chan<- prometheus.Metric) {
	type key struct{ signer, state string }
	counts := map[key]float64{}
	host := s.board.Host()
	aboutServer(host, metrics)
	for _, pod := range host.Pods {
		for _, v := range pod.Volumes {
			for _, source := range v.Sources {
				if source.State != "" {
					counts[key{source.Name, source.State}]++
				}
				for _, list := range source.Lists {
					labels := []string{pod.Namespace, pod.Name, v.Name, source.Path, list.CA}
					number, _ := strconv.ParseFloat(list.Number, 64) // digits
					metrics <- prometheus.MustNewConstMetric(listEndDesc, prometheus.GaugeValue, float64(list.NextUpdate.Unix()), labels...)
					metrics <- prometheus.MustNewConstMetric(listNumDesc, prometheus.GaugeValue, number, labels...)
				}
				if source.NotAfter != nil {
					metrics <- prometheus.MustNewConstMetric(expiryDesc, prometheus.GaugeValue, float64(source.NotAfter.Unix()),
						pod.Namespace, pod.Name, v.Name, source.Path, source.Kind)
				}
			}
		}
	}
	for k, count := range counts {
		metrics <- prometheus.MustNewConstMetric(statesDesc, prometheus.GaugeValue, count, k.signer, k.state)
	}
}
