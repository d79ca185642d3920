package adopt

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/policy/injection"
	"github.com/certplane/certplane/internal/rights"
)

const topicSettings = "Settings"

// Setting is a setting of the program, and what becomes of it.
type Setting struct {
	Part  string `json:"part"`
	Name  string `json:"name"`
	Value string `json:"value"`
	// To is the field of certplane's configuration; empty if there is none.
	To string `json:"to,omitempty"`
	// Text says where the setting is in the plan, or why it has no counterpart.
	Text string `json:"text,omitempty"`
}

// given is a setting as the program has it.
type given struct {
	name, value string
	row         *row
}

func rowOf(part, flag, field string) *row {
	at := slices.IndexFunc(settings, func(r row) bool {
		return strings.TrimPrefix(r.part, "controller") == strings.TrimPrefix(part, "controller") && (flag != "" && r.flag == flag || field != "" && r.field == field)
	})
	if at < 0 {
		return nil
	}
	return &settings[at]
}

// value returns a setting of a part by the name of its flag, or a default.
func (part *Part) value(flag, otherwise string) string {
	if part != nil {
		if g, ok := part.given[flag]; ok {
			return g.value
		}
	}
	return otherwise
}

// findGiven reads the flags and configuration files of the parts.
func (m *mover) findGiven(ctx context.Context, p *Plan) error {
	for i := range p.Parts {
		part := &p.Parts[i]
		part.given = map[string]given{}
		flags := map[string]string{}
		for _, arg := range slices.Concat(part.container.Command, part.container.Args) {
			if flag, isFlag := strings.CutPrefix(arg, "-"); isFlag {
				flag, value, hasValue := strings.Cut(strings.TrimPrefix(flag, "-"), "=")
				if !hasValue {
					value = "true"
				}
				flags[flag] = strings.ReplaceAll(value, "$(POD_NAMESPACE)", part.Namespace)
			}
		}
		if file := flags["config"]; file != "" {
			fields, err := m.configFile(ctx, part, file)
			if _, err := p.unread(topicSettings, fmt.Sprintf("the configuration file of the %s", part.Name), err); err != nil {
				return err
			}
			for field, value := range fields {
				g := given{field, value, rowOf(part.Name, "", field)}
				part.given[flagOf(g)] = g
			}
		}
		for flag, value := range flags { // they override the file
			g := given{"--" + flag, value, rowOf(part.Name, flag, "")}
			part.given[flag] = g
		}
		if part.Lease != "" {
			namespace := "kube-system"
			if m.webhookFirst {
				namespace = part.Namespace
			}
			part.Lease = part.value("leader-election-namespace", namespace) + "/" + part.Lease
		}
	}
	return nil
}

func flagOf(g given) string {
	if g.row != nil {
		return g.row.flag
	}
	return g.name
}

// configFile returns the fields of the configuration file that a ConfigMap of the pod contains,
// by their paths.
func (m *mover) configFile(ctx context.Context, part *Part, file string) (map[string]string, error) {
	for _, mount := range part.container.VolumeMounts {
		if mount.MountPath != path.Dir(file) {
			continue
		}
		for _, volume := range part.found.Spec.Template.Spec.Volumes {
			if volume.Name != mount.Name || volume.ConfigMap == nil {
				continue
			}
			from := &corev1.ConfigMap{}
			if err := m.api.Get(ctx, client.ObjectKey{Namespace: part.Namespace, Name: volume.ConfigMap.Name}, from); err != nil {
				return nil, err
			}
			var content map[string]any
			if err := yaml.Unmarshal([]byte(from.Data[path.Base(file)]), &content); err != nil {
				return nil, fmt.Errorf("ConfigMap %s: %w", nameOf(from), err)
			}
			fields := map[string]string{}
			flatten("", content, fields)
			return fields, nil
		}
	}
	return nil, fmt.Errorf("no ConfigMap of the pod contains %s", file)
}

// flatten adds the leaves of a value by their paths. Lists, and maps whose keys are data, are
// joined as in flags.
func flatten(at string, value any, into map[string]string) {
	switch value := value.(type) {
	case map[string]any:
		if at == "featureGates" || strings.HasSuffix(at, "Labels") {
			var pairs []string
			for _, key := range slices.Sorted(maps.Keys(value)) {
				pairs = append(pairs, fmt.Sprintf("%s=%v", key, value[key]))
			}
			into[at] = strings.Join(pairs, ",")
			return
		}
		for key, below := range value {
			flatten(strings.TrimPrefix(at+"."+key, "."), below, into)
		}
	case []any:
		var items []string
		for _, item := range value {
			items = append(items, fmt.Sprint(item))
		}
		into[at] = strings.Join(items, ",")
	default:
		into[at] = fmt.Sprint(value)
	}
}

// set sets a field of a configuration.
func set(in map[string]any, at string, value any) {
	stanza, rest, below := strings.Cut(at, ".")
	if !below {
		in[stanza] = value
		return
	}
	inner, _ := in[stanza].(map[string]any)
	if inner == nil {
		inner = map[string]any{}
		in[stanza] = inner
	}
	set(inner, rest, value)
}

// settings maps the settings, and completes the configuration.
func (m *mover) settings(ctx context.Context, p *Plan) error {
	var err error
	if p.Configuration, err = m.present(ctx); err != nil {
		return err
	}
	mapped := 0
	for _, part := range p.Parts {
		for _, key := range slices.Sorted(maps.Keys(part.given)) {
			g := part.given[key]
			about := Setting{Part: part.Name, Name: g.name, Value: g.value}
			isPods := slices.ContainsFunc(podSettings, func(begin string) bool { return strings.HasPrefix(key, begin) && (len(begin) > 1 || key == begin) })
			switch {
			case g.row != nil && g.row.to != "":
				about.To = g.row.to
				set(p.Configuration, g.row.to, g.row.as(g.value))
			case g.row != nil:
				about.Text = g.row.text
				if g.row.lost {
					p.warn(topicSettings, fmt.Sprintf("%s of the %s has no counterpart: %s", g.name, part.Name, g.row.text))
				}
			case isPods:
				about.Text = ownPods
			default:
				about.Text = "unknown to certplane"
				p.fail(topicSettings, fmt.Sprintf("%s of the %s is unknown to certplane, with the value %q", g.name, part.Name, g.value), "Remove it, or make sure that it has no effect here.")
			}
			mapped++
			p.Settings = append(p.Settings, about)
		}
	}
	m.choose(p)
	m.gates(p)
	p.ok(topicSettings, "%d settings of the Deployments are part of the plan", mapped)
	return nil
}

// present returns the configuration of installed controllers, which the plan completes.
func (m *mover) present(ctx context.Context) (map[string]any, error) {
	cfg := map[string]any{"apiVersion": "config.certplane.dev/v1alpha1", "kind": "ControllersConfiguration"}
	installed := &corev1.ConfigMap{}
	found, err := m.exists(ctx, m.namespace, controllersName, installed)
	if err != nil || !found {
		return cfg, err
	}
	if err := yaml.Unmarshal([]byte(installed.Data["config.yaml"]), &cfg); err != nil {
		return nil, fmt.Errorf("reading the configuration in ConfigMap %s: %w", nameOf(installed), err)
	}
	return cfg, nil
}

// add adds items to a list of the configuration, each once.
func add(cfg map[string]any, field string, items ...any) {
	all, _ := cfg[field].([]any)
	for _, item := range items {
		text := fmt.Sprint(item)
		if !slices.ContainsFunc(all, func(other any) bool { return fmt.Sprint(other) == text }) {
			all = append(all, item)
		}
	}
	cfg[field] = all
}

// choose chooses the controllers and the leases that they share with the program.
func (m *mover) choose(p *Plan) {
	chosen := []any{m.set}
	leader, _ := p.Configuration["leaderElection"].(map[string]any)
	if leader == nil {
		leader = map[string]any{}
	}
	for i := range p.Parts {
		part := &p.Parts[i]
		if part.Lease == "" {
			continue
		}
		if part.value("leader-elect", "true") == "false" {
			p.fail(topicSettings, fmt.Sprintf("the %s elects no leader (--leader-elect=false): its lease does not keep certplane from working at the same time", part.Name), "Let it elect a leader first.")
		}
		namespace, name, _ := strings.Cut(part.Lease, "/")
		add(leader, "alsoHold", map[string]any{"namespace": namespace, "name": name})
	}
	p.Configuration["leaderElection"] = leader
	if m.name == "cert-manager" {
		chosen = append(chosen, m.chooseCertManager(p)...)
	}
	add(p.Configuration, "controllers", chosen...)
}

func (m *mover) chooseCertManager(p *Plan) (more []any) {
	controller, injector := p.part("controller"), p.part("cainjector")
	if only := controller.value("namespace", ""); only != "" {
		p.fail(topicSettings, fmt.Sprintf("cert-manager works in the namespace %s only: certplane works in all namespaces", only))
	}
	set(p.Configuration, "certManager.clusterResourceNamespace", controller.value("cluster-resource-namespace", "kube-system"))
	if controller.value("enable-gateway-api", "") == "true" {
		more = append(more, rights.ShimGateways.Name)
		set(p.Configuration, listenerSets, controller.value("enable-gateway-api-listenerset", "") == "true")
	}
	if injector == nil {
		more = append(more, "-"+rights.InjectCAs.Name)
	} else {
		targets := []any{}
		for _, kind := range injection.KindNames() {
			if injector.value("enable-"+strings.ToLower(kind)+"s-injectable", "true") != "false" {
				targets = append(targets, kind)
			}
		}
		if len(targets) < len(injection.KindNames()) {
			set(p.Configuration, "caInjector.targets", targets)
		}
	}
	for _, name := range list(controller.value("controllers", "*")).([]any) {
		off, isOff := strings.CutPrefix(name.(string), "-")
		switch {
		case name == "*":
		case isOff && slices.ContainsFunc(rights.Controllers(), func(c rights.Controller) bool { return c.Name == off }):
			more = append(more, name)
		default:
			p.fail(topicSettings, fmt.Sprintf("--controllers of cert-manager contains %s: certplane has no controller of this name to switch on or off", name))
		}
	}
	return more
}

// gates applies feature gates, and the defaults that could issue or change a certificate.
func (m *mover) gates(p *Plan) {
	if m.name != "cert-manager" {
		return
	}
	controller := p.part("controller")
	on := map[string]string{}
	for name, value := range labels(controller.value("feature-gates", "")).(map[string]any) {
		on[name] = value.(string)
		known, isKnown := gates[name]
		p.Settings = append(p.Settings, Setting{Part: "controller", Name: "gate " + name, Value: on[name], Text: known.text})
		switch {
		case name == "AllAlpha" || name == "AllBeta" || !isKnown:
			p.fail(topicSettings, fmt.Sprintf("the feature gate %s is unknown to certplane", name))
		case known.lost != "" && known.lost == on[name]:
			p.warn(topicSettings, fmt.Sprintf("the feature gate %s is %s: %s", name, on[name], known.text))
		}
	}
	if on["ExperimentalCertificateSigningRequestControllers"] == "true" {
		add(p.Configuration, "controllers", rights.AnswerCSRs.Name)
	}
	if on["ListenerSets"] == "true" && controller.value("enable-gateway-api", "") == "true" {
		set(p.Configuration, listenerSets, true)
	}
	if on["ACMEHTTP01IngressPathTypeExact"] == "false" || on["ACMEHTTP01IngressPathTypeExact"] == "" && older(versionOf(controller), "1.18.0") {
		set(p.Configuration, "acme.http01.cluster.pathTypeExact", false)
	}
	if on["ACMEUseARI"] != "true" {
		set(p.Configuration, "certManager.renewalInformation", false)
		p.ok(topicSettings, "certManager.renewalInformation is false: as in cert-manager, CAs set no times of renewal, until you switch it on")
	}
}

func versionOf(part *Part) string {
	if part == nil {
		return ""
	}
	return part.Version
}

// release is the content of a release of Helm, as far as the move reads it.
type release struct {
	Config   map[string]any `json:"config"`
	Manifest string         `json:"manifest"`
}

// findRelease reads the release of Helm that installed the program: the values that its user has
// set, and whether an uninstallation deletes the definitions and with them all objects.
func (m *mover) findRelease(ctx context.Context, p *Plan) error {
	controller := p.Parts[0]
	name := controller.found.Annotations["meta.helm.sh/release-name"]
	if name == "" {
		return nil
	}
	r, err := m.release(ctx, controller.Namespace, name)
	if skip, err := p.unread(topicVersion, "Secrets in "+controller.Namespace+", with the release of Helm", err); err != nil || skip || r == nil {
		return err
	}
	values := map[string]string{}
	flatten("", r.Config, values)
	for _, at := range slices.Sorted(maps.Keys(values)) {
		becomes := chartValue(at)
		p.Settings = append(p.Settings, Setting{Part: "chart", Name: at, Value: "set", Text: becomes}) // a value can be a password
		if becomes == none {
			p.warn(topicSettings, fmt.Sprintf("the value %s of the chart has %s", at, none))
		}
	}
	if lost := r.deletes(m.groups); len(lost) > 0 {
		p.warn(topicVersion, fmt.Sprintf("uninstalling the release %s would delete the definitions %s, and with them all objects", name, some(lost)),
			"Never run helm uninstall now. Upgrade to a chart with crds.keep, or use cmctl x uninstall; step 7 refuses until then.")
		return nil
	}
	p.ok(topicVersion, "the release %s of Helm keeps the definitions when it is uninstalled", name)
	return nil
}

// release returns the deployed release of a name; nil if there is none.
func (m *mover) release(ctx context.Context, namespace, name string) (*release, error) {
	found := &corev1.SecretList{}
	if err := m.api.List(ctx, found, client.InNamespace(namespace), client.MatchingLabels{"owner": "helm", "name": name, "status": "deployed"}); err != nil {
		return nil, err
	}
	if len(found.Items) == 0 {
		return nil, nil
	}
	packed, err := base64.StdEncoding.DecodeString(string(found.Items[len(found.Items)-1].Data["release"]))
	if err != nil {
		return nil, fmt.Errorf("decoding the release %s of Helm: %w", name, err)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("decoding the release %s of Helm: %w", name, err)
	}
	r := &release{}
	if err := json.NewDecoder(io.LimitReader(unpacked, 64<<20)).Decode(r); err != nil {
		return nil, fmt.Errorf("decoding the release %s of Helm: %w", name, err)
	}
	return r, nil
}

// deletes returns the definitions of groups that an uninstallation would delete.
func (r *release) deletes(groups []string) (names []string) {
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(r.Manifest), 4096)
	for {
		o := &unstructured.Unstructured{}
		if decoder.Decode(&o.Object) != nil {
			return names
		}
		group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
		if o.GetKind() == "CustomResourceDefinition" && slices.Contains(groups, group) && o.GetAnnotations()["helm.sh/resource-policy"] != "keep" {
			names = append(names, o.GetName())
		}
	}
}
