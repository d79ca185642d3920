package grafana

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// rule is an alert of Prometheus.
type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func loadRules(t *testing.T) []rule {
	t.Helper()
	data, err := os.ReadFile("../prometheus/certplane.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []rule `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		t.Fatal(err)
	}
	var rules []rule
	for _, group := range file.Groups {
		rules = append(rules, group.Rules...)
	}
	return rules
}

// ownMetric matches the metrics of certplane, which others can have, too.
var ownMetric = regexp.MustCompile(`\b(certplane|certmanager)_[a-z0-9_]+`)

func TestRulesAreWhole(t *testing.T) {
	names := map[string]bool{}
	for _, r := range loadRules(t) {
		if names[r.Alert] || r.Alert == "" {
			t.Errorf("there are two alerts %q", r.Alert)
		}
		names[r.Alert] = true
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s does not say what it means", r.Alert)
		}
		if severity := r.Labels["severity"]; severity != "warning" && severity != "critical" {
			t.Errorf("%s has the severity %q", r.Alert, severity)
		}
		if _, err := time.ParseDuration(r.For); r.For != "" && err != nil {
			t.Errorf("%s: for: %v", r.Alert, err)
		}
		for _, pair := range []string{"()", "{}", "[]"} {
			if strings.Count(r.Expr, pair[:1]) != strings.Count(r.Expr, pair[1:]) {
				t.Errorf("%s: brackets do not match in %s", r.Alert, r.Expr)
			}
		}
		if own := len(ownMetric.FindAllString(r.Expr, -1)); own > strings.Count(r.Expr, `{job=~".*certplane.*"`) {
			t.Errorf("%s takes the metrics of everybody: %s", r.Alert, r.Expr)
		}
	}
	if len(names) < 10 {
		t.Errorf("there are %d alerts", len(names))
	}
}
