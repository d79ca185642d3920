package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"

	"github.com/certplane/certplane/internal/controller/install"
	"github.com/certplane/certplane/internal/policy/certpolicy/readymade"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/cluster"
)

// choice is a choice of the user that adds objects or parts of them.
type choice struct {
	// controller is the name of a controller.
	controller string
	// setting is a list of the configuration that gives the controller something to do,
	// if it needs one.
	setting []string
	// set gives the setting a value.
	set func(*cluster.Config)
	// needs are controllers; at least one of them must be chosen also.
	needs []string
}

// name returns the name of the choice in templates.
func (c choice) name() string {
	if len(c.setting) > 0 {
		return strings.Join(c.setting, ".")
	}
	return c.controller
}

// restricted are the choices that add nothing in themselves.
var restricted = []choice{
	{controller: rights.SignPods.Name, needs: []string{rights.FollowSigners.Name}},
	{controller: rights.Trust.Name, needs: []string{rights.Sign.Name, rights.Publish.Name, rights.FollowSigners.Name}},
	{controller: rights.FillConfigMaps.Name, needs: []string{rights.PublishLists.Name}},
	{controller: rights.InstallSigners.Name, setting: []string{"podSigners", "install"}, set: func(c *cluster.Config) {
		c.PodSigners.Install = []string{install.ServerCertificates}
	}},
	{controller: rights.InstallPolicies.Name, setting: []string{"policy", "install"}, set: func(c *cluster.Config) {
		c.Policy.Install = []string{readymade.NoSystemIdentities}
	}},
}

// choices are all choices: each controller that can be chosen in a cluster, and the
// settings that give controllers something to do.
func choices() []choice {
	all := slices.Clone(restricted)
	for _, c := range rights.Controllers() {
		known := func(other choice) bool { return other.name() == c.Name }
		if c.Chosen() && !slices.ContainsFunc(all, known) {
			all = append(all, choice{controller: c.Name})
		}
	}
	return all
}

// node is a part of the objects that is in them with some choices: a map, a list or a
// value.
type node struct {
	// with are the names of choices, at least one of which must be made; nil means none.
	with   []string
	value  any
	fields map[string]*node
	items  []item
}

// item is a part of a list. Its key identifies the same part in other lists.
type item struct {
	key  string
	node *node
}

// learn finds the choices that each part of the objects depends on: it renders the objects
// with each choice alone, and with all. Then it verifies the result with other sets of
// choices.
func learn() (*node, error) {
	all, err := render(choices()...)
	if err != nil {
		return nil, err
	}
	model := build(asList(all))
	seen := map[*node][]string{}
	always, err := model.parts() // with no choice but one that adds nothing
	if err != nil {
		return nil, err
	}
	for _, c := range choices() {
		added, err := model.addedBy(c)
		if err != nil {
			return nil, fmt.Errorf("with %s: %w", c.name(), err)
		}
		for part := range added {
			seen[part] = append(seen[part], c.name())
		}
	}
	model.condition(seen, always)
	return model, verify(model)
}

// addedBy returns the parts that exist with a choice, and not without it.
func (n *node) addedBy(c choice) (map[*node]bool, error) {
	added := map[*node]bool{}
	for _, need := range append(slices.Clone(c.needs), "")[:max(1, len(c.needs))] {
		var needed []choice
		if need != "" {
			needed = append(needed, choice{controller: need})
		}
		without, err := n.parts(needed...)
		if err != nil {
			return nil, err
		}
		with, err := n.parts(append(needed, c)...)
		if err != nil {
			return nil, err
		}
		for part := range with {
			if !without[part] {
				added[part] = true
			}
		}
	}
	return added, nil
}

// parts returns the parts that exist with these choices.
func (n *node) parts(chosen ...choice) (map[*node]bool, error) {
	objects, err := render(chosen...)
	if err != nil {
		return nil, err
	}
	parts := map[*node]bool{}
	return parts, mark(n, asList(objects), parts)
}

func asList(objects []object) []any {
	var list []any
	for _, one := range objects {
		list = append(list, one)
	}
	return list
}

// build returns the node of a value, without conditions.
func build(value any) *node {
	switch value := value.(type) {
	case map[string]any:
		if len(value) == 0 {
			return &node{value: value}
		}
		n := &node{fields: map[string]*node{}}
		for key, below := range value {
			if !isEmpty(below) {
				n.fields[key] = build(below)
			}
		}
		return n
	case []any:
		n := &node{items: []item{}}
		for i, key := range keys(value) {
			n.items = append(n.items, item{key, build(value[i])})
		}
		return n
	default:
		return &node{value: value}
	}
}

// keys names the items of a list, so that each is found in a shorter list.
func keys(list []any) []string {
	var all []string
	times := map[string]int{}
	for _, value := range list {
		key := keyOf(value)
		times[key]++
		all = append(all, fmt.Sprintf("%s #%d", key, times[key]))
	}
	return all
}

func keyOf(value any) string {
	fields, _ := value.(map[string]any)
	if meta, ok := fields["metadata"].(map[string]any); ok {
		return fmt.Sprint(fields["kind"], " ", meta["namespace"], " ", meta["name"])
	}
	if name, ok := fields["name"].(string); ok {
		return name
	}
	if _, isRule := fields["verbs"]; isRule {
		fields = maps.Clone(fields)
		delete(fields, "resourceNames") // some of them depend on the choice
		value = fields
	}
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // it was decoded from YAML
	}
	return string(text)
}

// isEmpty reports whether a field can be omitted. An empty map can have a meaning, as in the
// subresources of kinds.
func isEmpty(value any) bool {
	list, isList := value.([]any)
	return value == nil || isList && len(list) == 0
}

// varies are the strings that depend on the choice in other ways than by being there or
// not. Templates compute them.
var varies = []string{"certplane.dev/config-sha256", "config.yaml"}

// mark records which parts of the node exist in a value.
func mark(n *node, value any, there map[*node]bool) error {
	there[n] = true
	switch value := value.(type) {
	case map[string]any:
		if (len(value) == 0) != (n.fields == nil) {
			return fmt.Errorf("%v, which is empty in other objects", value)
		}
		for key, below := range value {
			if isEmpty(below) {
				continue
			}
			if n.fields[key] == nil {
				return fmt.Errorf("%s is not there with all choices", key)
			}
			if slices.Contains(varies, key) {
				there[n.fields[key]] = true
				continue
			}
			if err := mark(n.fields[key], below, there); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
	case []any:
		for i, key := range keys(value) {
			at := slices.IndexFunc(n.items, func(i item) bool { return i.key == key })
			if at < 0 {
				return fmt.Errorf("%s is not there with all choices", key)
			}
			if err := mark(n.items[at].node, value[i], there); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
	default:
		if !reflect.DeepEqual(n.value, value) {
			return fmt.Errorf("%v, which is %v with all choices", value, n.value)
		}
	}
	return nil
}

// condition sets the choices that each part depends on.
func (n *node) condition(seen map[*node][]string, always map[*node]bool) {
	if !always[n] {
		n.with = append([]string{}, seen[n]...)
	}
	for _, below := range n.fields {
		below.condition(seen, always)
	}
	for _, below := range n.items {
		below.node.condition(seen, always)
	}
}

// of returns the value with the chosen controllers.
func (n *node) of(chosen []string) any {
	switch {
	case n.fields != nil:
		value := map[string]any{}
		for key, below := range n.fields {
			if below.isWith(chosen) && !slices.Contains(varies, key) {
				value[key] = below.of(chosen)
			}
		}
		return value
	case n.items != nil:
		value := []any{}
		for _, below := range n.items {
			if below.node.isWith(chosen) {
				value = append(value, below.node.of(chosen))
			}
		}
		return value
	default:
		return n.value
	}
}

func (n *node) isWith(chosen []string) bool {
	return n.with == nil || slices.ContainsFunc(n.with, func(name string) bool { return slices.Contains(chosen, name) })
}

// verified is the number of sets of choices that are rendered to verify the result.
const verified = 30

// verify compares the objects of sets of choices with the model. The sets are always the
// same.
func verify(model *node) error {
	random := rand.New(rand.NewPCG(1, 1))
	for range verified {
		chosen := slices.DeleteFunc(choices(), func(choice) bool { return random.IntN(3) > 0 })
		objects, err := render(chosen...)
		if err != nil {
			return err
		}
		effective := effective(chosen)
		got, want := normal(model.of(effective)), normal(build(asList(objects)).of(effective))
		if got != want {
			return fmt.Errorf("with %v the chart would have\n%s\nand not\n%s", effective, got, want)
		}
	}
	return nil
}

// effective returns the names of the choices whose needs are met.
func effective(chosen []choice) []string {
	var names []string
	has := func(name string) bool {
		return slices.ContainsFunc(chosen, func(c choice) bool { return c.controller == name })
	}
	for _, c := range chosen {
		i := slices.IndexFunc(restricted, func(r choice) bool { return r.name() == c.name() })
		if i < 0 || len(restricted[i].needs) == 0 || slices.ContainsFunc(restricted[i].needs, has) {
			names = append(names, c.name())
		}
	}
	return names
}

// normal returns a value as text, with the parts of lists sorted by their text: the order of
// objects, rules, volumes and webhooks has no meaning.
func normal(value any) string {
	text, err := json.Marshal(sorted(value))
	if err != nil {
		panic(err) // it was decoded from YAML
	}
	return string(text)
}

func sorted(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, below := range value {
			value[key] = sorted(below)
		}
	case []any:
		for i, below := range value {
			value[i] = sorted(below)
		}
		slices.SortFunc(value, func(a, b any) int { return compareText(a, b) })
	}
	return value
}

func compareText(a, b any) int {
	left, _ := json.Marshal(a)
	right, _ := json.Marshal(b)
	return slices.Compare(left, right)
}

// allNames returns the names of all choices.
func allNames() []string {
	var names []string
	for _, c := range choices() {
		names = append(names, c.name())
	}
	return names
}
