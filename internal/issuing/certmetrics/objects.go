package certmetrics

import (
	"context"
	"slices"
	"sync"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// source is a cache of objects.
type source struct {
	certificates func(context.Context) []*cmv1.Certificate
	issuers      func(context.Context) []cmv1.GenericIssuer
	challenges   func(context.Context) []*acmev1.Challenge
}

// objects are the series about objects. They are built from caches at each
// scrape: a series disappears with its object, and no series takes memory.
type objects struct {
	ready, expiration, notAfter, notBefore, renewal *prometheus.Desc
	issuerReady, clusterIssuerReady                 *prometheus.Desc
	challenge                                       *prometheus.Desc

	mu      sync.Mutex
	sources []*source // the latest last
}

// patience is how long a cache may take to answer. A cache that is not filled
// yet adds no series.
const patience = time.Second

// statuses are the statuses that a condition can have. Each has a series, and
// one of these series is 1.
var statuses = []cmmeta.ConditionStatus{cmmeta.ConditionTrue, cmmeta.ConditionFalse, cmmeta.ConditionUnknown}

func newObjects() *objects {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
	}
	certificate := []string{"name", "namespace", "issuer_name", "issuer_kind", "issuer_group"}
	return &objects{
		ready: desc("certificate_ready_status", "Whether the Certificate is ready: 1 for the status that it has.",
			slices.Insert(slices.Clone(certificate), 2, "condition")...),
		expiration:         desc("certificate_expiration_timestamp_seconds", "Expiry of the certificate, in seconds since 1970; 0 without a certificate.", certificate...),
		notAfter:           desc("certificate_not_after_timestamp_seconds", "Expiry of the certificate, in seconds since 1970; 0 without a certificate.", certificate...),
		notBefore:          desc("certificate_not_before_timestamp_seconds", "Start of the certificate's validity, in seconds since 1970; 0 without a certificate.", certificate...),
		renewal:            desc("certificate_renewal_timestamp_seconds", "Renewal time of the certificate, in seconds since 1970; 0 without a certificate.", certificate...),
		issuerReady:        desc("issuer_ready_status", "Whether the Issuer is ready: 1 for the status that it has.", "name", "namespace", "condition"),
		challenge:          descChallenge(desc),
		clusterIssuerReady: desc("clusterissuer_ready_status", "Whether the ClusterIssuer is ready: 1 for the status that it has.", "name", "condition"),
	}
}

func (o *objects) add(s source) (remove func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	added := &s
	o.sources = append(o.sources, added)
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.sources = slices.DeleteFunc(slices.Clone(o.sources), func(one *source) bool { return one == added })
	}
}

// Describe implements prometheus.Collector.
func (o *objects) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{o.ready, o.expiration, o.notAfter, o.notBefore, o.renewal, o.issuerReady, o.clusterIssuerReady, o.challenge} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (o *objects) Collect(series chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	o.mu.Lock()
	sources := o.sources
	o.mu.Unlock()
	// A process can run several servers with objects of the same name. A series may be
	// listed only once: the last server wins.
	seen := map[string]bool{}
	for _, s := range slices.Backward(sources) {
		o.collect(ctx, s, seen, series)
	}
}

func (o *objects) collect(ctx context.Context, s *source, seen map[string]bool, series chan<- prometheus.Metric) {
	first := func(kind string, object metav1.Object) bool {
		key := kind + "/" + object.GetNamespace() + "/" + object.GetName()
		known := seen[key]
		seen[key] = true
		return !known
	}
	if s.certificates != nil {
		for _, crt := range s.certificates(ctx) {
			if first(cmv1.CertificateKind, crt) {
				o.collectCertificate(crt, series)
			}
		}
	}
	if s.challenges != nil {
		for _, ch := range s.challenges(ctx) {
			if first(acmev1.ChallengeKind, ch) {
				o.collectChallenge(ch, series)
			}
		}
	}
	if s.issuers != nil {
		for _, issuer := range s.issuers(ctx) {
			if first(cmv1.IssuerKind, issuer) {
				o.collectIssuer(issuer, series)
			}
		}
	}
}

func (o *objects) collectCertificate(crt *cmv1.Certificate, series chan<- prometheus.Metric) {
	ref := crt.Spec.IssuerRef
	status := cmmeta.ConditionUnknown
	if ready := certmanager.CertificateCondition(crt, cmv1.CertificateConditionReady); ready != nil {
		status = ready.Status
	}
	for _, possible := range statuses {
		series <- gauge(o.ready, is(status == possible), crt.Name, crt.Namespace, string(possible), ref.Name, ref.Kind, ref.Group)
	}
	for _, at := range []struct {
		desc *prometheus.Desc
		time *metav1.Time
	}{
		{o.expiration, crt.Status.NotAfter}, {o.notAfter, crt.Status.NotAfter},
		{o.notBefore, crt.Status.NotBefore}, {o.renewal, crt.Status.RenewalTime},
	} {
		series <- gauge(at.desc, unix(at.time), crt.Name, crt.Namespace, ref.Name, ref.Kind, ref.Group)
	}
}

func (o *objects) collectIssuer(issuer cmv1.GenericIssuer, series chan<- prometheus.Metric) {
	status := cmmeta.ConditionUnknown
	if ready := certmanager.IssuerCondition(issuer, cmv1.IssuerConditionReady); ready != nil {
		status = ready.Status
	}
	for _, possible := range statuses {
		if issuer.GetNamespace() == "" {
			series <- gauge(o.clusterIssuerReady, is(status == possible), issuer.GetName(), string(possible))
			continue
		}
		series <- gauge(o.issuerReady, is(status == possible), issuer.GetName(), issuer.GetNamespace(), string(possible))
	}
}

func gauge(desc *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

func is(so bool) float64 {
	if so {
		return 1
	}
	return 0
}

func unix(t *metav1.Time) float64 {
	if t == nil {
		return 0
	}
	return float64(t.Unix())
}
