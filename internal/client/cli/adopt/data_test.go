package adopt

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	cainjector "github.com/cert-manager/cert-manager/pkg/apis/config/cainjector/v1alpha1"
	controller "github.com/cert-manager/cert-manager/pkg/apis/config/controller/v1alpha1"
	webhook "github.com/cert-manager/cert-manager/pkg/apis/config/webhook/v1alpha1"

	"github.com/certplane/certplane/internal/client/cli/check"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/cluster"
)

func newReader(t *testing.T, name string) *reader {
	t.Helper()
	d, err := readData()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(d.Programs, func(p program) bool { return p.Name == name })
	return &reader{data: d, program: d.Programs[at]}
}

// fieldsOf adds the paths of the fields of a configuration file.
func fieldsOf(of reflect.Type, at string, into *[]string) {
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	isOwn := strings.Contains(of.PkgPath(), "cert-manager/pkg/apis/config")
	if of.Kind() != reflect.Struct || !isOwn || strings.HasSuffix(of.Name(), "Duration") {
		*into = append(*into, strings.TrimPrefix(at, "."))
		return
	}
	for field := range of.NumField() {
		f := of.Field(field)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Name == "TypeMeta":
		case strings.Contains(options, "inline"):
			fieldsOf(f.Type, at, into)
		default:
			fieldsOf(f.Type, at+"."+name, into)
		}
	}
}

// Each field of cert-manager's configuration files is mapped, or it is known why not.
func TestEveryField(t *testing.T) {
	m := newReader(t, "cert-manager")
	for part, config := range map[string]any{
		"controller": controller.ControllerConfiguration{}, "cainjector": cainjector.CAInjectorConfiguration{}, "webhook": webhook.WebhookConfiguration{},
	} {
		var fields []string
		fieldsOf(reflect.TypeOf(config), "", &fields)
		if len(fields) < 10 {
			t.Errorf("%s: only %v", part, fields)
		}
		for _, field := range fields {
			flag := field
			if r := m.rowOf(part, func(r row) bool { return r.Field == field }); r != nil {
				flag = r.Flag
			}
			p := &Plan{Configuration: map[string]any{}}
			s := Setting{Part: part, Name: field, Value: "1", row: m.rowOf(part, func(r row) bool { return r.Field == field })}
			p.Report = check.NewReport()
			if m.mapSetting(p, flag, s); p.Settings[0].Text == "unknown to certplane" {
				t.Errorf("the field %s of the %s has no row in data.yaml", field, part)
			}
		}
	}
}

// The fields that settings are mapped to exist in certplane's configuration, with their types.
func TestMappedFields(t *testing.T) {
	m := newReader(t, "cert-manager")
	for _, r := range m.Settings {
		if r.To == "" {
			continue
		}
		value := map[string]string{"": "x", "number": "5", "list": "a,b", "boolean": "true", "map": "a=b"}[r.As]
		switch {
		case strings.HasSuffix(r.To, "cpu"), strings.HasSuffix(r.To, "memory"):
			value = "10m"
		case strings.Contains(r.To, "ameservers"):
			value = "1.1.1.1:53"
		case strings.HasSuffix(r.To, "Period"), strings.Contains(r.To, "backoff"):
			value = "40h"
		}
		if r.As == "boolean" {
			value = "true"
		}
		p := &Plan{Configuration: map[string]any{"apiVersion": "config.certplane.dev/v1alpha1", "kind": "ControllersConfiguration"}}
		p.set(r.To, convert(value, r.As))
		text, err := json.Marshal(p.Configuration)
		if err != nil {
			t.Fatal(err)
		}
		_, err = cluster.ParseConfig(text)
		if err != nil && (strings.Contains(err.Error(), "unknown field") || strings.Contains(err.Error(), "cannot unmarshal")) {
			t.Errorf("--%s as %s: %v", r.Flag, r.To, err)
		}
	}
	for _, n := range m.Needs {
		if !slices.ContainsFunc(rights.Controllers(), func(c rights.Controller) bool { return c.Account == n.Account }) {
			t.Errorf("no controller has the account %s", n.Account)
		}
	}
}

// Each value of cert-manager's chart is listed, with more than the text for values of pods where
// it is about anything else.
func TestEveryChartValue(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "deploy/charts/cert-manager/values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Defs map[string]any `json:"$defs"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	m := newReader(t, "cert-manager")
	pods := []string{"affinity", "automount", "containerSecurityContext", "deploymentAnnotations", "DnsConfig", "DnsPolicy", "enableServiceLinks", "extraContainers", "extraEnv", "extraObjects", "hostAliases", "hostNetwork", "hostUsers",
		"ervice", "imagePullSecrets", "labels", "Labels", "livenessProbe", "loadBalancerIP", "logLevel", "networkPolicy", "nodeSelector", "podAnnotations", "podDisruptionBudget", "priorityClassName", "proxy", "readinessProbe", "resources",
		"revisionHistoryLimit", "runtimeClassName", "securityContext", "strategy", "tolerations", "topologySpread", "url", "olume", "Annotations", "helm-values", "global", "cainjector", "webhook"}
	found := 0
	for name := range schema.Defs {
		path, is := strings.CutPrefix(name, "helm-values.")
		if !is {
			continue
		}
		found++
		last := path[strings.LastIndex(path, ".")+1:]
		if m.ofChart(path) == "none" && !slices.ContainsFunc(pods, func(p string) bool { return strings.Contains(last, p) }) && !strings.Contains(path, "networkPolicy") && !strings.Contains(path, "podDisruptionBudget") && !strings.Contains(path, "serviceAccount") && !strings.Contains(path, "url") {
			t.Errorf("the value %s of the chart is not listed in data.yaml", path)
		}
	}
	if found < 200 {
		t.Errorf("the schema has only %d values", found)
	}
}

// Each flag that cert-manager's chart sets, and each flag of its webhook, is listed.
func TestEveryFlag(t *testing.T) {
	m := newReader(t, "cert-manager")
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager").Output()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for file, part := range map[string]string{
		"deploy/charts/cert-manager/templates/deployment.yaml": "controller", "deploy/charts/cert-manager/templates/cainjector-deployment.yaml": "cainjector",
		"deploy/charts/cert-manager/templates/webhook-deployment.yaml": "webhook", "pkg/webhook/options/options.go": "webhook",
	} {
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), file))
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`- --([a-z0-9-]+)|fs\.\w+\(&[^,]+, "([a-z0-9-]+)"`).FindAllStringSubmatch(string(text), -1) {
			flag := match[1] + match[2]
			found++
			p := &Plan{Report: check.NewReport(), Configuration: map[string]any{}}
			s := Setting{Part: part, Name: flag, Value: "1", row: m.rowOf(part, func(r row) bool { return r.Flag == flag })}
			if m.mapSetting(p, flag, s); p.Settings[0].Text == "unknown to certplane" {
				t.Errorf("the flag %s of the %s has no row in data.yaml", flag, part)
			}
		}
	}
	if found < 50 {
		t.Errorf("there are only %d flags", found)
	}
}

// Each feature gate of cert-manager is listed.
func TestEveryGate(t *testing.T) {
	m := newReader(t, "cert-manager")
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "internal/controller/feature/features.go"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, _, ok := strings.Cut(strings.TrimSpace(line), " featuregate.Feature = ")
		if ok && !strings.HasPrefix(name, "//") && m.rowOf("controller", func(r row) bool { return r.Gate == name }) == nil {
			t.Errorf("the feature gate %s has no row in data.yaml", name)
		}
	}
}

// A release deletes the definitions that it does not keep.
func TestDeletes(t *testing.T) {
	const definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: NAME, annotations: {helm.sh/resource-policy: POLICY}}\nspec: {group: cert-manager.io}\n---\n"
	manifest := strings.NewReplacer("NAME", "a", "POLICY", "keep").Replace(definition) + "# a comment\n---\n" + strings.NewReplacer("NAME", "b", "POLICY", "other").Replace(definition) + "kind: Service\n"
	r := &release{Manifest: manifest}
	if got := r.deletes([]string{"cert-manager.io"}); !slices.Equal(got, []string{"b"}) {
		t.Errorf("it deletes %v", got)
	}
	if got := r.deletes([]string{"other.example"}); len(got) > 0 {
		t.Errorf("of another group it deletes %v", got)
	}
}
