package manifest

import (
	"regexp"
	"strconv"

	yamlv3 "go.yaml.in/yaml/v3"
)

// step is one part of a path: a name, or the number of an item in brackets.
var step = regexp.MustCompile(`\[([^\]]*)\]|([^.\[\]]+)`)

// LineOf returns the line of the field at a path such as spec.rules[0].name, or
// of the nearest field around it that is there.
func (d *Document) LineOf(path string) int {
	line := d.Line
	d.walk(path, func(key, _ *yamlv3.Node) { line = key.Line })
	return line
}

// Node returns the keys and the values on the path to a field, from the outside
// to the inside: those that are there.
func (d *Document) walk(path string, visit func(key, value *yamlv3.Node)) {
	node := d.node
	for _, found := range step.FindAllStringSubmatch(path, -1) {
		key, value := childOf(node, found[1]+found[2])
		if value == nil {
			return
		}
		visit(key, value)
		node = value
	}
}

// child returns the value of a key, or nil.
func child(node *yamlv3.Node, name string) *yamlv3.Node {
	_, value := childOf(node, name)
	return value
}

// childOf returns the key and the value of a name in a map, also in those that
// are merged into it, or the item of a list.
func childOf(node *yamlv3.Node, name string) (key, value *yamlv3.Node) {
	for node != nil && node.Kind == yamlv3.AliasNode {
		node = node.Alias
	}
	if node == nil {
		return nil, nil
	}
	switch node.Kind {
	case yamlv3.SequenceNode:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i]
		}
		return named(node, name)
	case yamlv3.MappingNode:
		return childOfMap(node, name)
	}
	return nil, nil
}

// named returns the item of a list that has this name: rules[no-wildcards].
func named(list *yamlv3.Node, name string) (key, value *yamlv3.Node) {
	for _, item := range list.Content {
		for _, field := range []string{"name", "oid"} {
			if value := child(item, field); value != nil && value.Value == name {
				return item, item
			}
		}
	}
	return nil, nil
}

func childOfMap(node *yamlv3.Node, name string) (key, value *yamlv3.Node) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			return node.Content[i], node.Content[i+1]
		}
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Tag != "!!merge" {
			continue
		}
		merged := []*yamlv3.Node{node.Content[i+1]}
		if merged[0].Kind == yamlv3.SequenceNode {
			merged = merged[0].Content
		}
		for _, one := range merged {
			if key, value := childOf(one, name); value != nil {
				return key, value
			}
		}
	}
	return nil, nil
}

// Place is where a field is in a file.
type Place struct {
	// Line and Column are those of its key, from 1.
	Line, Column int
	// Inline is set if the field is in a map that is written in braces.
	Inline bool
}

// PlaceOf returns where the field at a path is. It does not look into merged
// maps.
func (d *Document) PlaceOf(path string) (Place, bool) {
	place, found := Place{Line: d.Line, Column: d.node.Column}, true
	node := d.node
	for _, name := range step.FindAllStringSubmatch(path, -1) {
		key, value := childOf(node, name[1]+name[2])
		if value == nil || node.Kind == yamlv3.AliasNode {
			return place, false
		}
		place = Place{Line: key.Line, Column: key.Column, Inline: place.Inline || node.Style&yamlv3.FlowStyle != 0}
		node = value
	}
	return place, found
}
