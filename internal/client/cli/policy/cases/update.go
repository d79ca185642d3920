package cases

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/process/atomicfile"
)

// update writes the actual decisions of failed cases to the file, and returns the names
// of the cases. All other text stays unchanged.
func (f *file) update(decided []*decidedCase) ([]string, error) {
	var names []string
	var edits []edit
	for i := 0; i < len(decided); {
		// The combinations of a matrix have one expectation.
		group := decided[i : i+1]
		for i+len(group) < len(decided) && decided[i+len(group)].test == group[0].test && decided[i+len(group)].index == group[0].index {
			group = decided[i : i+len(group)+1]
		}
		i += len(group)
		one, err := f.edit(group)
		if err != nil {
			return nil, err
		}
		if one == nil {
			continue
		}
		edits = append(edits, *one)
		for _, c := range group {
			names = append(names, c.name)
		}
	}
	if len(edits) == 0 {
		return nil, nil
	}
	data, err := applyEdits(f.data, edits)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(f.name)
	if err != nil {
		return nil, err
	}
	return names, atomicfile.Write(f.name, data, info.Mode().Perm())
}

// edit replaces lines, from the first one up to but without the last one,
// counted from 0.
type edit struct {
	first, last int
	text        string
}

// edit returns the edit that writes the decision of a case; nil if no change is needed.
func (f *file) edit(group []*decidedCase) (*edit, error) {
	c := group[0]
	path := fmt.Sprintf("cases[%d]", c.index)
	if !slices.ContainsFunc(group, func(c *decidedCase) bool { return c.report.Error == "" && !c.report.OK }) {
		return nil, nil
	}
	var want *v1alpha1.PolicyTestExpectation
	for _, one := range group {
		if one.report.Error != "" {
			return nil, c.test.document.Errorf(path, "%s: %s", one.name, one.report.Error)
		}
		expectation := written(&c.spec.Expect, one.report.Decision)
		if want != nil && !reflect.DeepEqual(*want, expectation) {
			return nil, c.test.document.Errorf(path, "%s: the combinations of the matrix have different decisions: make them separate cases", c.spec.Name)
		}
		want = &expectation
	}
	return f.replacement(c, path, *want)
}

// written returns the expectation to write: with the fields that identify a violation,
// and with shadows only if the decision had some.
func written(was *v1alpha1.PolicyTestExpectation, d *v1alpha1.PolicyDecision) v1alpha1.PolicyTestExpectation {
	e := expectationOf(d)
	for i := range e.Violations {
		e.Violations[i].Value = ""
		if e.Violations[i].Reason == e.Reason {
			e.Violations[i].Reason = ""
		}
	}
	if was.Shadow == nil {
		e.Shadow = nil
	}
	return e
}

// replacement returns the edit that replaces an expectation, or adds it at the end of the
// case.
func (f *file) replacement(c *decidedCase, path string, want v1alpha1.PolicyTestExpectation) (*edit, error) {
	lines := bytes.Split(f.data, []byte("\n"))
	place, found := c.test.document.PlaceOf(path + ".expect")
	if !found {
		place, _ = c.test.document.PlaceOf(path + ".name")
	}
	if place.Inline {
		return nil, c.test.document.Errorf(path, "%s: the case is in braces: write it in lines to have it updated", c.spec.Name)
	}
	text, err := expectText(want, place.Column-1)
	if err != nil {
		return nil, err
	}
	first := place.Line - 1
	if !found {
		// The case ends where a line begins before its fields.
		end := blockEnd(lines, first, place.Column-1)
		return &edit{end, end, strings.Repeat(" ", place.Column-1) + text}, nil
	}
	before := string(lines[first][:place.Column-1]) // blanks, or the dash of the item
	return &edit{first, blockEnd(lines, first, place.Column), before + text}, nil
}

// blockEnd returns the line after the block that begins in a line: the lines
// that begin at the column indent or behind it. Blank lines and comments at its
// end do not belong to it.
func blockEnd(lines [][]byte, first, indent int) int {
	end := first + 1
	for i := end; i < len(lines); i++ {
		line := bytes.TrimRight(lines[i], " \r")
		content := bytes.TrimLeft(line, " ")
		switch {
		case len(content) == 0 || content[0] == '#':
		case len(line)-len(content) < indent:
			return end
		default:
			end = i + 1
		}
	}
	return end
}

// expectText returns the field expect, whose key begins at a column.
func expectText(want v1alpha1.PolicyTestExpectation, column int) (string, error) {
	data, err := yaml.Marshal(want)
	if err != nil {
		return "", err
	}
	var root yamlv3.Node
	if err := yamlv3.Unmarshal(data, &root); err != nil {
		return "", err
	}
	for i, value := range root.Content[0].Content {
		if i%2 == 1 && value.Kind == yamlv3.SequenceNode {
			for _, item := range value.Content {
				item.Style = yamlv3.FlowStyle
			}
		}
	}
	var text bytes.Buffer
	encoder := yamlv3.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(root.Content[0]); err != nil {
		return "", err
	}
	indent := strings.Repeat(" ", column+2)
	return "expect:\n" + indent + strings.ReplaceAll(strings.TrimRight(text.String(), "\n"), "\n", "\n"+indent), nil
}

// applyEdits returns data after edits, which do not overlap.
func applyEdits(data []byte, edits []edit) ([]byte, error) {
	lines := strings.Split(string(data), "\n")
	slices.SortFunc(edits, func(a, b edit) int { return b.first - a.first })
	for _, e := range edits {
		if e.last > len(lines) {
			return nil, fmt.Errorf("line %d does not exist", e.last)
		}
		lines = slices.Replace(lines, e.first, e.last, strings.Split(e.text, "\n")...)
	}
	return []byte(strings.Join(lines, "\n")), nil
}
