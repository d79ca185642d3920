// Package grafana holds a dashboard and alerts to what servers really tell.
package grafana

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/certplane/certplane/internal/apitest"
	admission "github.com/certplane/certplane/internal/frontend/admissionwebhook"
	"github.com/certplane/certplane/internal/issuing/signer/webhook"
	"github.com/certplane/certplane/internal/run/server"
)

// dashboard is what the tests read of Grafana's model.
type dashboard struct {
	UID           string `json:"uid"`
	SchemaVersion int    `json:"schemaVersion"`
	Templating    struct {
		List []struct {
			Name, Type string
			Definition string
		}
	}
	Panels []panel
}

type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               struct{ Type, UID string }
	GridPos                  struct{ H, W, X, Y int }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []struct{ RefID, Expr, LegendFormat string }
}

func load(t *testing.T) dashboard {
	t.Helper()
	data, err := os.ReadFile("certplane.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// queries are all expressions of a dashboard.
func (d dashboard) queries() []string {
	var queries []string
	for _, variable := range d.Templating.List {
		queries = append(queries, variable.Definition)
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			queries = append(queries, target.Expr)
		}
	}
	return queries
}

func TestDashboardIsWhole(t *testing.T) {
	d := load(t)
	if d.UID == "" || d.SchemaVersion < 39 { // what Grafana 11 writes
		t.Errorf("uid %q, schema version %d", d.UID, d.SchemaVersion)
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("%s has the number of another panel", p.Title)
		}
		ids[p.ID] = true
		p.checkPlace(t, taken)
		if p.Type != "row" {
			p.checkContent(t)
		}
	}
}

// checkPlace: no panel lies over another, none beyond the 24 columns.
func (p panel) checkPlace(t *testing.T, taken map[[2]int]string) {
	t.Helper()
	if p.GridPos.X+p.GridPos.W > 24 || p.GridPos.H == 0 {
		t.Errorf("%s is at %+v", p.Title, p.GridPos)
	}
	for x := range p.GridPos.W {
		for y := range p.GridPos.H {
			cell := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
			if other := taken[cell]; other != "" {
				t.Fatalf("%s lies over %s", p.Title, other)
			}
			taken[cell] = p.Title
		}
	}
}

func (p panel) checkContent(t *testing.T) {
	t.Helper()
	if p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
		t.Errorf("panel %d lacks something: %+v", p.ID, p)
	}
	for _, target := range p.Targets {
		for _, pair := range []string{"()", "{}", "[]"} {
			if strings.Count(target.Expr, pair[:1]) != strings.Count(target.Expr, pair[1:]) {
				t.Errorf("%s: brackets do not match in %s", p.Title, target.Expr)
			}
		}
		if !strings.Contains(target.Expr, `job=~"$job"`) {
			t.Errorf("%s shows the metrics of everybody: %s", p.Title, target.Expr)
		}
	}
}

var metricName = regexp.MustCompile(`\b(certplane|certmanager|process|apiserver|workqueue)_[a-z0-9_]+`)

// TestMetricsExist: a server has every metric of the dashboard and of the alerts, by that name, or
// the admission webhook of "certplane controllers" has it, of which a server has
// no need.
func TestMetricsExist(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := apitest.Start(t, func(c *server.Config) {
		c.Signing.Webhooks = []webhook.Settings{{SignerName: "example.com/x", URL: "https://localhost:1/sign", TokenFile: token}}
	})
	// The signers' own queues come last: they start when the server is ready.
	var shown []byte
	apitest.Eventually(t, "the signers run", func() bool {
		var err error
		shown, err = apitest.Client(t, s.Admin(t)).Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return isShown(string(shown), "certplane_signing_queue_length")
	})
	ofWebhook := prometheus.NewRegistry()
	if _, err := admission.NewMetrics(ofWebhook); err != nil {
		t.Fatal(err)
	}
	exists := func(name string) bool {
		return isShown(string(shown), name) || isRegistered(legacyregistry.Registerer(), name) || isRegistered(ofWebhook, name)
	}
	var names []string
	for _, query := range load(t).queries() {
		names = append(names, metricName.FindAllString(query, -1)...)
	}
	for _, r := range loadRules(t) {
		names = append(names, metricName.FindAllString(r.Expr, -1)...)
	}
	slices.Sort(names)
	if len(names) == 0 {
		t.Fatal("the dashboard shows nothing")
	}
	for _, name := range slices.Compact(names) {
		if !exists(name) {
			t.Errorf("a server has no metric %s", name)
		}
	}
	if exists("certplane_no_such_metric") {
		t.Error("this test finds what is not there")
	}
}

func isShown(metrics, name string) bool {
	return strings.Contains(metrics, "\n"+name+"{") || strings.Contains(metrics, "\n"+name+" ")
}

// isRegistered finds metrics with labels that have not counted anything yet:
// no other metric can have their name. A histogram's series have more than it.
func isRegistered(registry prometheus.Registerer, name string) bool {
	if isTaken(registry, name) {
		return true
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, cut := strings.CutSuffix(name, suffix); cut {
			return isTaken(registry, base)
		}
	}
	return false
}

func isTaken(registry prometheus.Registerer, name string) bool {
	probe := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: "Is there a metric of this name?"})
	if registry.Register(probe) != nil {
		return true
	}
	registry.Unregister(probe)
	return false
}
