// Package manifest reads objects from YAML and JSON files, with the line of each
// field.
package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// Stdin is the name of the standard input among files.
const Stdin = "-"

// Document is one object of a file.
type Document struct {
	// File is the name of the file, Line the first line of the object.
	File string
	Line int

	APIVersion, Kind, Namespace, Name string
	// JSON is the object.
	JSON json.RawMessage

	node *yamlv3.Node
}

// Group returns the API group of the object.
func (d *Document) Group() string {
	group, _, found := strings.Cut(d.APIVersion, "/")
	if !found {
		return ""
	}
	return group
}

// Error is a mistake in a file.
type Error struct {
	File string
	// Line is 0 if it is not known.
	Line int
	Text string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Text
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Text)
}

// Errorf returns an error about the field at path; the empty path is the whole
// object.
func (d *Document) Errorf(path, format string, args ...any) *Error {
	return &Error{d.File, d.LineOf(path), fmt.Sprintf(format, args...)}
}

// Open reads a file, or the standard input if its name is Stdin.
func Open(name string, stdin io.Reader) ([]byte, error) {
	if name == Stdin {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(name)
}

// Read reads the objects of a file, of the standard input if its name is Stdin, or
// of all files of a folder and of the folders in it whose names end with .yaml,
// .yml or .json.
func Read(path string) ([]Document, error) {
	files, err := Files(path)
	if err != nil {
		return nil, err
	}
	var all []Document
	for _, file := range files {
		data, err := Open(file, os.Stdin)
		if err != nil {
			return nil, err
		}
		documents, err := Parse(file, data)
		if err != nil {
			return nil, err
		}
		all = append(all, documents...)
	}
	return all, nil
}

// Files returns the names of the files that Read reads, sorted. It skips hidden files and
// folders.
func Files(path string) ([]string, error) {
	if path == Stdin {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, err
	}
	var files []string
	err = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != path && strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return filepath.SkipDir
			}
		case !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)):
			files = append(files, name)
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("the folder %s has no files *.yaml, *.yml or *.json", path)
	}
	return files, err
}

// Parse returns the objects in data; of a List its items. file is the name for
// errors. A field that is given twice is an error.
func Parse(file string, data []byte) ([]Document, error) {
	if file == Stdin {
		file = "standard input"
	}
	var all []Document
	for _, part := range split(data) {
		documents, err := parsePart(file, part)
		if err != nil {
			return nil, err
		}
		all = append(all, documents...)
	}
	return all, nil
}

// split returns the YAML documents in data. Each starts with as many empty lines as
// precede it in the file, so that the parser's line numbers are correct.
func split(data []byte) [][]byte {
	var parts [][]byte
	part, lines := []byte(nil), 0
	for line := range bytes.Lines(data) {
		if rest, isSeparator := bytes.CutPrefix(line, []byte("---")); isSeparator && len(bytes.TrimLeft(rest, " \t\r\n")) < len(rest) || isSeparator && len(rest) == 0 {
			parts = append(parts, part)
			part = bytes.Repeat([]byte("\n"), lines)
			line = append([]byte("   "), rest...) // content can follow
		}
		part = append(part, line...)
		lines++
	}
	return append(parts, part)
}

// yamlError is the form of the parsers' errors.
var yamlError = regexp.MustCompile(`(?s)^(?:error converting YAML to JSON: )?yaml: (?:unmarshal errors:\n\s*)?line (\d+): (.*)$`)

func parsePart(file string, data []byte) ([]Document, error) {
	// The API's clients read YAML with this package. The other one, which knows
	// lines, is of a later version of YAML. Strict, it would refuse fields that
	// replace merged ones: keys are checked here.
	asJSON, err := yaml.YAMLToJSON(data)
	if err != nil {
		return nil, syntaxError(file, err)
	}
	if bytes.Equal(asJSON, []byte("null")) {
		return nil, nil
	}
	var root yamlv3.Node
	if err := yamlv3.Unmarshal(data, &root); err != nil {
		return nil, syntaxError(file, err)
	}
	if len(root.Content) == 0 {
		return nil, nil
	}
	if mistake := checkKeys(root.Content[0]); mistake != nil {
		mistake.File = file
		return nil, mistake
	}
	return documents(file, asJSON, root.Content[0])
}

// checkKeys returns an error for the first field that is given twice.
func checkKeys(node *yamlv3.Node) *Error {
	if node.Kind == yamlv3.AliasNode {
		return nil // it is checked where it is defined
	}
	seen := map[string]bool{}
	for i, one := range node.Content {
		if node.Kind == yamlv3.MappingNode && i%2 == 0 {
			switch {
			case seen[one.Value]:
				return &Error{Line: one.Line, Text: fmt.Sprintf("the field %q is given twice", one.Value)}
			case one.Tag == "!!merge" && i > 0:
				// The parser would let it replace the fields before it.
				return &Error{Line: one.Line, Text: "<< must be the first field"}
			}
			seen[one.Value] = true
			continue
		}
		if mistake := checkKeys(one); mistake != nil {
			return mistake
		}
	}
	return nil
}

func syntaxError(file string, err error) error {
	if found := yamlError.FindStringSubmatch(err.Error()); found != nil {
		line, _ := strconv.Atoi(found[1])
		return &Error{file, line, strings.TrimSpace(found[2])}
	}
	return &Error{file, 0, strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")}
}

func documents(file string, asJSON []byte, node *yamlv3.Node) ([]Document, error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
		Items []json.RawMessage `json:"items"`
	}
	d := Document{File: file, Line: node.Line, JSON: asJSON, node: node}
	if node.Kind != yamlv3.MappingNode {
		return nil, d.Errorf("", "is not an object with apiVersion, kind and metadata")
	}
	if err := json.Unmarshal(asJSON, &head); err != nil {
		return nil, d.typeError(err)
	}
	if !strings.HasSuffix(head.Kind, "List") || head.Items == nil {
		d.APIVersion, d.Kind, d.Namespace, d.Name = head.APIVersion, head.Kind, head.Metadata.Namespace, head.Metadata.Name
		switch {
		case d.Kind == "":
			return nil, d.Errorf("", "kind is missing")
		case d.APIVersion == "":
			return nil, d.Errorf("", "apiVersion is missing")
		}
		return []Document{d}, nil
	}
	var all []Document
	items := child(node, "items")
	for i, item := range head.Items {
		if items == nil || i >= len(items.Content) {
			return nil, d.Errorf("items", "cannot be read")
		}
		documents, err := documents(file, item, items.Content[i])
		if err != nil {
			return nil, err
		}
		all = append(all, documents...)
	}
	return all, nil
}
