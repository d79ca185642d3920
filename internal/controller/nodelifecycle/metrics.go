package nodelifecycle

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	nodeutil "k8s.io/component-helpers/node/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/certplane/certplane/internal/process/collector"
)

// The metrics have the names that kube-controller-manager gives them.
var (
	sizeDesc = prometheus.NewDesc("node_collector_zone_size",
		"Number of registered Nodes per zones.", []string{"zone"}, nil)
	unhealthyDesc = prometheus.NewDesc("node_collector_unhealthy_nodes_in_zone",
		"Number of not Ready Nodes per zones.", []string{"zone"}, nil)
)

// readTimeout is how long a cache may take to answer.
const readTimeout = time.Second

// counter counts nodes when metrics are collected. It counts the nodes of the server that
// was started last in this process.
type counter struct {
	mu    sync.Mutex // guards nodes
	nodes client.Reader
}

var _ prometheus.Collector = (*counter)(nil)

// count makes metrics count nodes while the controller works.
func (r *reconciler) count(mgr ctrl.Manager) error {
	c := &counter{}
	if err := collector.Share(r.Metrics, &c); err != nil {
		return fmt.Errorf("registering the metrics of nodes: %w", err)
	}
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		c.set(nil, r.nodes)
		<-ctx.Done()
		c.set(r.nodes, nil)
		return nil
	}))
}

// set replaces what is counted. Unless from is nil, it must be what is counted
// now.
func (c *counter) set(from, to client.Reader) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if from == nil || c.nodes == from {
		c.nodes = to
	}
}

func (c *counter) current() client.Reader {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes
}

// Describe implements prometheus.Collector.
func (*counter) Describe(descs chan<- *prometheus.Desc) {
	descs <- sizeDesc
	descs <- unhealthyDesc
}

// Collect implements prometheus.Collector.
func (c *counter) Collect(metrics chan<- prometheus.Metric) {
	nodes := c.current()
	if nodes == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	list := &corev1.NodeList{}
	if err := nodes.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return // the cache is ending
	}
	size, unhealthy := map[string]int{}, map[string]int{}
	for i := range list.Items {
		node := &list.Items[i]
		zone := zoneOf(node)
		size[zone]++
		_, ready := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady)
		if ready == nil || ready.Status != corev1.ConditionTrue {
			unhealthy[zone]++
		}
	}
	for zone, n := range size {
		metrics <- prometheus.MustNewConstMetric(sizeDesc, prometheus.GaugeValue, float64(n), zone)
		metrics <- prometheus.MustNewConstMetric(unhealthyDesc, prometheus.GaugeValue, float64(unhealthy[zone]), zone)
	}
}

// zoneOf returns the zone of a node in metrics, in Kubernetes' form:
// REGION:\0:ZONE, or "" for a node without either.
func zoneOf(node *corev1.Node) string {
	region, zone := node.Labels[corev1.LabelTopologyRegion], node.Labels[corev1.LabelTopologyZone]
	if region == "" && zone == "" {
		return ""
	}
	return region + ":\x00:" + zone
}
