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
	"strconv"
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

// row says what becomes of a setting. The comments in data.yaml explain its fields.
type row struct {
	Part, Flag, Field, Gate string
	To, As, Text            string
	Lost                    bool
}

// Setting is a setting of the program, and what becomes of it.
type Setting struct {
	Part  string `json:"part"`
	Name  string `json:"name"`
	Value string `json:"value"`
	// To is the field of certplane's configuration; empty if there is none.
	To string `json:"to,omitempty"`
	// Text says where the setting is in the plan, or why it has no counterpart.
	Text string `json:"text,omitempty"`

	row *row
}

// convert returns a value of a flag as a value of a configuration file.
func convert(value, as string) any {
	number, err := strconv.ParseInt(value, 10, 64)
	switch {
	case as == "boolean":
		return value == "true"
	case as == "number" && err == nil:
		return number
	case as == "list":
		items := []any{}
		for item := range strings.SplitSeq(value, ",") {
			if item = strings.TrimSpace(item); item != "" {
				items = append(items, item)
			}
		}
		return items
	case as == "map":
		all := map[string]any{}
		for pair := range strings.SplitSeq(value, ",") {
			if key, value, ok := strings.Cut(pair, "="); ok {
				all[strings.TrimSpace(key)] = value
			}
		}
		return all
	}
	return value
}

// rowOf returns the first row that is meant; nil if there is none.
func (m *reader) rowOf(part string, meant func(row) bool) *row {
	at := slices.IndexFunc(m.Settings, func(r row) bool { return (r.Part == "" || r.Part == part) && meant(r) })
	if at < 0 {
		return nil
	}
	return &m.Settings[at]
}

// value returns a setting of a part by the name of its flag, or a default.
func (part *Part) value(flag, otherwise string) string {
	if set, ok := part.given[flag]; ok {
		return set.Value
	}
	return otherwise
}

// findGiven reads the flags and the configuration file of a part. Flags override the file.
func (m *reader) findGiven(ctx context.Context, p *Plan, part *Part) error {
	flags, fields := map[string]string{}, map[string]string{}
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
		content, err := m.configFile(ctx, part, file)
		if _, err := p.unread(topicSettings, "the configuration file of the "+part.Name, err); err != nil {
			return err
		}
		flatten("", content, fields)
	}
	part.given = map[string]Setting{}
	for field, value := range fields {
		r, flag := m.rowOf(part.Name, func(r row) bool { return r.Field == field }), field
		if r != nil {
			flag = r.Flag
		}
		part.given[flag] = Setting{Part: part.Name, Name: field, Value: value, row: r}
	}
	for flag, value := range flags {
		part.given[flag] = Setting{Part: part.Name, Name: "--" + flag, Value: value, row: m.rowOf(part.Name, func(r row) bool { return r.Flag == flag })}
	}
	if part.Lease != "" {
		namespace := m.LeaseNamespace
		if namespace == "" {
			namespace = part.Namespace
		}
		part.Lease = part.value("leader-election-namespace", namespace) + "/" + part.Lease
	}
	return nil
}

// configFile returns the configuration file that a ConfigMap of the pod contains.
func (m *reader) configFile(ctx context.Context, part *Part, file string) (content map[string]any, err error) {
	for _, mount := range part.container.VolumeMounts {
		for _, volume := range part.found.Spec.Template.Spec.Volumes {
			if mount.MountPath != path.Dir(file) || volume.Name != mount.Name || volume.ConfigMap == nil {
				continue
			}
			from := &corev1.ConfigMap{}
			if err := m.api.Get(ctx, client.ObjectKey{Namespace: part.Namespace, Name: volume.ConfigMap.Name}, from); err != nil {
				return nil, err
			}
			return content, yaml.Unmarshal([]byte(from.Data[path.Base(file)]), &content)
		}
	}
	return nil, fmt.Errorf("no ConfigMap of the pod contains %s", file)
}

// flatten adds the leaves of a value by their paths. Lists, and maps whose keys are data, are
// joined as in flags.
func flatten(at string, value any, into map[string]string) {
	var joined []string
	keysAreData := at == "featureGates" || strings.HasSuffix(at, "Labels")
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if joined = append(joined, fmt.Sprintf("%s=%v", key, value[key])); !keysAreData {
				flatten(strings.TrimPrefix(at+"."+key, "."), value[key], into)
			}
		}
		if !keysAreData {
			return
		}
	case []any:
		for _, item := range value {
			joined = append(joined, fmt.Sprint(item))
		}
	default:
		joined = []string{fmt.Sprint(value)}
	}
	into[at] = strings.Join(joined, ",")
}

// set sets a field of the configuration.
func (p *Plan) set(at string, value any) {
	// The path leads through maps only: the configuration was made here, or is valid.
	_ = unstructured.SetNestedField(p.Configuration, value, strings.Split(at, ".")...)
}

// add adds items to a list of the configuration, each once.
func (p *Plan) add(at string, items ...any) {
	all, _, _ := unstructured.NestedSlice(p.Configuration, strings.Split(at, ".")...)
	for _, item := range items {
		if !slices.ContainsFunc(all, func(other any) bool { return fmt.Sprint(other) == fmt.Sprint(item) }) {
			all = append(all, item)
		}
	}
	p.set(at, all)
}

// field returns a boolean field of the configuration, or its default.
func (p *Plan) field(otherwise bool, at string) bool {
	if value, found, _ := unstructured.NestedBool(p.Configuration, strings.Split(at, ".")...); found {
		return value
	}
	return otherwise
}

// chooses reports whether the configuration contains the name of a controller.
func (p *Plan) chooses(name string) bool {
	chosen, _, _ := unstructured.NestedSlice(p.Configuration, "controllers")
	return slices.Contains(chosen, any(name))
}

// mapSettings maps the settings, and completes the configuration.
func (m *reader) mapSettings(ctx context.Context, p *Plan) (err error) {
	if p.Configuration, err = m.present(ctx); err != nil {
		return err
	}
	for _, part := range p.Parts {
		for _, flag := range slices.Sorted(maps.Keys(part.given)) {
			m.mapSetting(p, flag, part.given[flag])
		}
		if part.Lease == "" {
			continue
		}
		namespace, name, _ := strings.Cut(part.Lease, "/")
		p.add("leaderElection.alsoHold", map[string]any{"namespace": namespace, "name": name})
		if part.value("leader-elect", "true") == "false" {
			p.fail(topicSettings, fmt.Sprintf("the %s elects no leader (--leader-elect=false): its lease does not keep certplane from working at the same time", part.Name), "Let it elect a leader first.")
		}
	}
	p.add("controllers", m.Set)
	if m.Name == "cert-manager" {
		m.chooseControllers(p)
		m.mapGates(p)
	} else {
		p.set("trustManager.trustNamespace", p.part("controller").value("trust-namespace", "cert-manager"))
	}
	p.ok(topicSettings, "%d settings are part of the plan", len(p.Settings))
	return nil
}

func (m *reader) mapSetting(p *Plan, flag string, s Setting) {
	isOfPods := slices.ContainsFunc(m.OwnPods, func(begin string) bool { return strings.HasPrefix(flag+"=", begin) })
	switch r := s.row; {
	case r != nil && r.To != "":
		s.To = r.To
		p.set(r.To, convert(s.Value, r.As))
	case r != nil:
		if s.Text = r.Text; r.Lost {
			p.warn(topicSettings, fmt.Sprintf("%s of the %s has no counterpart: %s", s.Name, s.Part, r.Text))
		}
	case isOfPods:
		s.Text = "about the pods and connections of the other program"
	default:
		s.Text = "unknown to certplane"
		p.fail(topicSettings, fmt.Sprintf("%s of the %s is unknown to certplane", s.Name, s.Part), "Remove it, or make sure that it has no effect here.")
	}
	p.Settings = append(p.Settings, s)
}

// present returns the configuration of the installed controllers, which the plan completes.
func (m *reader) present(ctx context.Context) (map[string]any, error) {
	cfg, installed := map[string]any{"apiVersion": "config.certplane.dev/v1alpha1", "kind": "ControllersConfiguration"}, &corev1.ConfigMap{}
	if found, err := m.exists(ctx, m.namespace, controllersName, installed); err != nil || !found {
		return cfg, err
	}
	if err := yaml.Unmarshal([]byte(installed.Data["config.yaml"]), &cfg); err != nil {
		return nil, fmt.Errorf("reading the configuration in ConfigMap %s: %w", nameOf(installed), err)
	}
	return cfg, nil
}

// chooseControllers chooses the controllers that cert-manager runs.
func (m *reader) chooseControllers(p *Plan) {
	controller, injector := p.part("controller"), p.part("cainjector")
	if only := controller.value("namespace", ""); only != "" {
		p.fail(topicSettings, fmt.Sprintf("cert-manager works in the namespace %s only, certplane in all namespaces", only))
	}
	p.set("certManager.clusterResourceNamespace", controller.value("cluster-resource-namespace", "kube-system"))
	if controller.value("copied-annotation-prefixes", "") != "" {
		p.add("certManager.copiedAnnotationPrefixes", "-certplane.dev/shim")
	}
	if controller.value("enable-gateway-api", "") == "true" {
		p.add("controllers", rights.ShimGateways.Name)
		p.set("certManager.gatewayShim.listenerSets", controller.value("enable-gateway-api-listenerset", "") == "true")
	}
	if injector == nil {
		p.add("controllers", "-"+rights.InjectCAs.Name)
	} else {
		off := func(kind string) bool {
			return injector.value("enable-"+strings.ToLower(kind)+"s-injectable", "") == "false"
		}
		if kinds := injection.KindNames(); slices.ContainsFunc(kinds, off) {
			p.set("caInjector.targets", convert(strings.Join(slices.DeleteFunc(kinds, off), ","), "list"))
		}
	}
	for _, name := range convert(controller.value("controllers", "*"), "list").([]any) {
		isOurs := func(c rights.Controller) bool { return "-"+c.Name == name }
		switch {
		case name == "*":
		case slices.ContainsFunc(rights.Controllers(), isOurs):
			p.add("controllers", name)
		default:
			p.fail(topicSettings, fmt.Sprintf("--controllers of cert-manager contains %s: certplane has no controller of this name to switch on or off", name))
		}
	}
	if p.chooses("-" + rights.ApproveRequests.Name) {
		p.ok(topicSettings, "cert-manager approves no requests, and neither does certplane")
	}
}

// mapGates applies the feature gates of cert-manager, and the defaults of its version that could
// issue or change a certificate.
func (m *reader) mapGates(p *Plan) {
	controller := p.part("controller")
	gates := convert(controller.value("feature-gates", ""), "map").(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		s := Setting{Part: controller.Name, Name: "gate " + name, Value: fmt.Sprint(gates[name])}
		if r := m.rowOf(controller.Name, func(r row) bool { return r.Gate == name }); r == nil {
			p.fail(topicSettings, fmt.Sprintf("the feature gate %s is unknown to certplane", name))
		} else if s.Text = r.Text; r.Lost && s.Value == "true" {
			p.warn(topicSettings, fmt.Sprintf("the feature gate %s is on: %s", name, r.Text))
		} else if r.Text == "always on" && s.Value == "false" {
			p.warn(topicSettings, fmt.Sprintf("the feature gate %s is off, and in certplane %s", name, r.Text))
		}
		p.Settings = append(p.Settings, s)
	}
	if gates["ExperimentalCertificateSigningRequestControllers"] == "true" {
		p.add("controllers", rights.AnswerCSRs.Name)
	}
	if gates["ExperimentalGatewayAPISupport"] == "true" && older(controller.Version, "1.15.0") { // since then, a flag enables it
		p.add("controllers", rights.ShimGateways.Name)
		p.set("certManager.gatewayShim.listenerSets", false)
		p.set("acme.http01.cluster.enableGatewayAPI", true)
	}
	if gates["ListenerSets"] == "true" && p.chooses(rights.ShimGateways.Name) {
		p.set("certManager.gatewayShim.listenerSets", true)
	}
	if exact := gates["ACMEHTTP01IngressPathTypeExact"]; exact == "false" || exact == nil && older(controller.Version, "1.18.0") {
		p.set("acme.http01.cluster.pathTypeExact", false)
	}
	if gates["ACMEUseARI"] != "true" { // a window of a CA can begin before renewBefore
		p.set("certManager.renewalInformation", false)
	}
	p.keepsKeys = gates["DefaultPrivateKeyRotationPolicyAlways"] == "false" || older(controller.Version, "1.18.0")
}

// release is a release of Helm, as far as the move reads it.
type release struct {
	Config   map[string]any `json:"config"`
	Manifest string         `json:"manifest"`
}

// readRelease reads the release of Helm that installed the program: the values that its user has
// set, and whether an uninstallation deletes the definitions, and with them all objects.
func (m *reader) readRelease(ctx context.Context, p *Plan) error {
	name := p.Parts[0].found.Annotations["meta.helm.sh/release-name"]
	r, err := m.release(ctx, p.Parts[0].Namespace, name)
	if skip, err := p.unread(topicVersion, "Secrets in "+p.Parts[0].Namespace+", with the release of Helm", err); err != nil || skip || r == nil {
		return err
	}
	values := map[string]string{}
	flatten("", r.Config, values)
	for _, at := range slices.Sorted(maps.Keys(values)) {
		s := Setting{Part: "chart", Name: at, Value: "set", Text: m.ofChart(at)} // a value can be a password
		if s.Text == "none" {
			p.warn(topicSettings, fmt.Sprintf("the value %s of the chart has no counterpart in certplane's manifests", at))
		}
		p.Settings = append(p.Settings, s)
	}
	if lost := r.deletes(m.Groups); len(lost) > 0 {
		p.warn(topicVersion, fmt.Sprintf("helm uninstall would delete the definitions of the release %s, and with them all objects: %s", name, some(lost)),
			"Never run it now. Upgrade the release to a chart with crds.keep: true. Step 7 refuses until then.")
	}
	return nil
}

// ofChart returns what becomes of a value of the chart.
func (m *reader) ofChart(at string) string {
	best := ""
	for begin := range m.Chart {
		if strings.HasPrefix(at, begin) && len(begin) > len(best) {
			best = begin
		}
	}
	return m.Chart[best]
}

// release returns the deployed release of a name; nil if there is none.
func (m *reader) release(ctx context.Context, namespace, name string) (*release, error) {
	found := &corev1.SecretList{}
	if name == "" {
		return nil, nil
	}
	if err := m.api.List(ctx, found, client.InNamespace(namespace), client.MatchingLabels{"owner": "helm", "name": name, "status": "deployed"}); err != nil || len(found.Items) == 0 {
		return nil, err
	}
	packed := base64.NewDecoder(base64.StdEncoding, bytes.NewReader(found.Items[len(found.Items)-1].Data["release"]))
	unpacked, err := gzip.NewReader(packed)
	r := &release{}
	if err == nil {
		err = json.NewDecoder(io.LimitReader(unpacked, 64<<20)).Decode(r)
	}
	if err != nil {
		return nil, fmt.Errorf("decoding the release %s of Helm: %w", name, err)
	}
	return r, nil
}

// deletes returns the definitions of groups that an uninstallation would delete.
func (r *release) deletes(groups []string) (names []string) {
	if r == nil {
		return nil
	}
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(r.Manifest), 4096)
	for {
		o := &unstructured.Unstructured{}
		if decoder.Decode(&o.Object) != nil {
			return names
		}
		group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
		if o.GetKind() == definitionKind.Kind && slices.Contains(groups, group) && o.GetAnnotations()["helm.sh/resource-policy"] != "keep" {
			names = append(names, o.GetName())
		}
	}
}
