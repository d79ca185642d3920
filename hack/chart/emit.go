package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/rights"
)

// computed are the fields that templates of the chart compute, by kind and path.
var computed = map[string]string{
	"Deployment/spec/replicas": `{{ .Values.replicas }}`,
	"Deployment/spec/template/metadata/annotations/certplane.dev/config-sha256": `{{ include "certplane.config" . | sha256sum | quote }}`,
	"Deployment/spec/template/spec/containers/controllers/resources":            `{{ include "certplane.resources" . }}`,
	"Deployment/spec/template/spec/containers/controllers/env":                  `{{ include "certplane.env" . }}`,
	"ConfigMap/data/config.yaml":                                                `{{ include "certplane.config" . | toJson }}`,
}

// caVolume is the name of the volume with the CA, which exists if the configuration names
// its files.
const caVolume = "ca"

const definitionKind = "CustomResourceDefinition"

// folderOfKind returns the folder of the definitions of a group.
func folderOfKind(group string) string {
	if strings.HasSuffix(group, "cert-manager.io") {
		return "cert-manager"
	}
	return "certplane"
}

// chart returns the files of the chart by name.
func chart(model *node) (map[string]string, error) {
	files := map[string]string{}
	templates := map[string]*strings.Builder{}
	template := func(kind string) *strings.Builder {
		file := path.Join(chartDir, "templates/generated", strings.ToLower(kind)+".yaml")
		if templates[file] == nil {
			templates[file] = &strings.Builder{}
			templates[file].WriteString(generated + "{{- $chosen := include \"certplane.chosen\" . | fromJson }}\n")
		}
		return templates[file]
	}
	for _, one := range model.items {
		kind := text(one.node, "kind")
		out := template(kind)
		if kind != definitionKind {
			emitter{out: out, kind: kind}.object(one.node)
			continue
		}
		file := path.Join(folderOfKind(text(one.node, "spec", "group")), text(one.node, "metadata", "name")+".yaml")
		definition, err := yaml.Marshal(one.node.of(allNames()))
		if err != nil {
			return nil, err
		}
		files[path.Join(kindsDir, file)] = generated + string(definition)
		fmt.Fprintf(out, "{{- if and .Values.crds.install (%s) }}\n---\n{{ include \"certplane.crd\" (list . %q) }}\n{{- end }}\n", oneOf(one.node.with), path.Join("files/crds", file))
	}
	for name, made := range templates {
		files[name] = made.String()
	}
	table, err := controllerTable(model)
	if err != nil {
		return nil, err
	}
	files[chartDir+"/templates/generated/_controllers.tpl"] = table
	schema, err := valuesSchema()
	files[chartDir+"/values.schema.json"] = schema
	return files, err
}

// find returns the first object of a kind.
func find(model *node, kind string) *node {
	for _, one := range model.items {
		if text(one.node, "kind") == kind {
			return one.node
		}
	}
	return nil
}

func text(n *node, path ...string) string {
	for _, key := range path {
		if n = n.fields[key]; n == nil {
			return ""
		}
	}
	value, _ := n.value.(string)
	return value
}

// controllerTable is a template with the controllers, and whether "*" includes them; and
// with the choices that add nothing in themselves. Another one says whether the webhook is
// served.
func controllerTable(model *node) (string, error) {
	byDefault := map[string]bool{}
	for _, c := range rights.Controllers() {
		if c.Chosen() {
			byDefault[c.Name] = byDefault[c.Name] || c.InClusters()
		}
	}
	needs, settings := map[string][]string{}, map[string]any{}
	for _, c := range restricted {
		if len(c.setting) > 0 {
			settings[c.name()] = map[string]any{"controller": c.controller, "setting": c.setting}
		} else {
			needs[c.name()] = c.needs
		}
	}
	sets := map[string]any{}
	for _, set := range rights.Sets() {
		sets[set.Name] = set.Controllers
	}
	table, err := json.Marshal(map[string]any{"controllers": byDefault, "needs": needs, "sets": sets, "settings": settings})
	if err != nil {
		return "", err
	}
	webhook := find(model, "ValidatingWebhookConfiguration")
	if webhook == nil {
		return "", errors.New("there is no webhook")
	}
	return "{{- /* Made by hack/generate.sh: the controllers, and whether \"*\" includes them; those that need\n" +
		"     one of some others; the sets of controllers; and the settings that give controllers something to do. */ -}}\n" +
		"{{- define \"certplane.table\" -}}\n" + string(table) + "\n{{- end }}\n" +
		"{{- define \"certplane.servesWebhook\" -}}\n{{- $chosen := include \"certplane.chosen\" . | fromJson -}}\n" +
		"{{- " + oneOf(webhook.with) + " -}}\n{{- end }}\n", nil
}

// emitter writes the template of an object.
type emitter struct {
	out  *strings.Builder
	kind string
}

func (e emitter) object(n *node) {
	condition := ""
	if n.with != nil {
		condition = oneOf(n.with)
	}
	if e.kind == "Namespace" {
		condition = ".Values.namespace.create"
	}
	if condition != "" {
		fmt.Fprintf(e.out, "{{- if %s }}\n", condition)
	}
	e.out.WriteString("---\n")
	e.fields(n, "", e.kind)
	if condition != "" {
		e.out.WriteString("{{- end }}\n")
	}
}

// oneOf is the condition that one of these controllers is chosen.
func oneOf(names []string) string {
	var quoted []string
	for _, name := range names {
		quoted = append(quoted, fmt.Sprintf("%q", name))
	}
	return fmt.Sprintf("include \"certplane.oneOf\" (list $chosen %s)", strings.Join(quoted, " "))
}

// fields writes a map whose lines begin with indent. The path names the map.
func (e emitter) fields(n *node, indent, path string) {
	for _, key := range slices.Sorted(maps.Keys(n.fields)) {
		below := n.fields[key]
		e.within(n, below, "", func() { e.field(key, below, indent, path+"/"+key) })
	}
}

func (e emitter) field(key string, n *node, indent, path string) {
	label := indent + scalar(key) + ":"
	expression := computed[path]
	switch {
	case expression != "":
		fmt.Fprintf(e.out, "%s %s\n", label, expression)
	case n.fields != nil:
		fmt.Fprintln(e.out, label)
		e.fields(n, indent+"  ", path)
	case n.items != nil:
		fmt.Fprintln(e.out, label)
		e.list(n, indent+"  ", path)
	default:
		fmt.Fprintf(e.out, "%s %s\n", label, scalar(n.value))
	}
}

func (e emitter) list(n *node, indent, path string) {
	for _, one := range n.items {
		name := text(one.node, "name")
		special := ""
		if e.kind == "Deployment" && name == caVolume {
			special = `include "certplane.usesCA" .`
		}
		e.within(n, one.node, special, func() {
			if one.node.fields == nil {
				fmt.Fprintf(e.out, "%s- %s\n", indent, scalar(one.node.value))
				return
			}
			var text strings.Builder
			emitter{&text, e.kind}.fields(one.node, indent+"  ", path+"/"+name)
			e.out.WriteString(dashed(text.String(), indent))
		})
	}
}

// dashed puts the dash of a list before the first field of a map.
func dashed(text, indent string) string {
	if strings.HasPrefix(text, indent+"  ") {
		return indent + "- " + strings.TrimPrefix(text, indent+"  ")
	}
	// It begins with a condition.
	return indent + "-\n" + text
}

// within writes a part of parent, below its condition if that is not the parent's.
func (e emitter) within(parent, n *node, condition string, write func()) {
	if condition == "" && n.with != nil && !slices.Equal(n.with, parent.with) {
		condition = oneOf(n.with)
	}
	if condition == "" {
		write()
		return
	}
	fmt.Fprintf(e.out, "{{- if %s }}\n", condition)
	write()
	e.out.WriteString("{{- end }}\n")
}

// scalar writes a value on one line, with the values of the chart in their places.
func scalar(value any) string {
	written, err := yaml.Marshal(value)
	if err != nil {
		panic(err) // it was decoded from YAML
	}
	line := strings.TrimSuffix(string(written), "\n")
	if strings.Contains(line, "\n") || strings.HasPrefix(line, "|") || strings.HasPrefix(line, ">") {
		quoted, err := json.Marshal(value)
		if err != nil {
			panic(err) // it was decoded from YAML
		}
		line = string(quoted)
	}
	if strings.Contains(line, "{{") {
		panic("a template in " + line)
	}
	switch line {
	case placeNamespace, placeImage: // quoted, because the name of a namespace can be a number
		return strings.Replace(inPlace.Replace(line), " . }}", " . | quote }}", 1)
	default:
		return inPlace.Replace(line)
	}
}

// inPlace puts the values of the chart in their places.
var inPlace = strings.NewReplacer(
	placeNamespace, `{{ include "certplane.namespace" . }}`,
	placeImage, `{{ include "certplane.image" . }}`,
)
