// Package configfile reads certplane's configuration files, strictly.
package configfile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"sort"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// APIVersion is the API version of all configuration files.
const APIVersion = "config.certplane.dev/v1alpha1"

// Config is a pointer to a configuration.
type Config interface {
	// Validate reports values that cannot work, by their fields. Several are
	// joined (errors.Join).
	Validate() error
}

// Load reads the configuration of a kind in path on top of cfg, which holds
// the defaults. Unknown, repeated and ill-typed fields, and values that cannot
// work, are errors that name the file and the field by its path. Durations may
// have days (package duration).
func Load(path, kind string, cfg Config) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	if err := Parse(data, kind, cfg); err != nil {
		return fmt.Errorf("reading the configuration %s: %w", path, err)
	}
	return nil
}

// Parse is Load for the content of a file.
func Parse(data []byte, kind string, cfg Config) error {
	if err := checkOneDocument(data); err != nil {
		return err
	}
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return err
	}
	if err := checkKind(asJSON, kind); err != nil {
		return err
	}
	asJSON, problems, err := convertDocument(asJSON, cfg)
	if err != nil {
		return err
	}
	unknown, err := kjson.UnmarshalStrict(asJSON, cfg)
	if err != nil {
		return err
	}
	// Validate runs only if all values could be read: an omitted value would cause
	// misleading errors about other fields.
	if len(problems) == 0 {
		problems = split(cfg.Validate())
	}
	return joinProblems(append(problems, unknown...))
}

// convertDocument converts a document to the form that cfg reads. It leaves out
// the values that do not fit, and returns them as problems.
func convertDocument(asJSON []byte, cfg Config) (converted []byte, problems []error, err error) {
	decoder := json.NewDecoder(bytes.NewReader(asJSON))
	decoder.UseNumber() // keeps large numbers exact
	var document any
	if err := decoder.Decode(&document); err != nil {
		return nil, nil, err
	}
	var f converter
	document = f.convert(document, reflect.TypeOf(cfg), "")
	converted, err = json.Marshal(document)
	return converted, f.problems, err
}

// split returns the errors that are joined in err.
func split(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
		return nil
	case !ok:
		return []error{err}
	}
	var all []error
	for _, part := range joined.Unwrap() {
		all = append(all, split(part)...)
	}
	return all
}

// joinProblems returns a single problem unchanged, and several as one error with a line
// each, so that a user sees all of them at once.
func joinProblems(problems []error) error {
	if len(problems) < 2 {
		return errors.Join(problems...)
	}
	sort.Slice(problems, func(i, j int) bool { return problems[i].Error() < problems[j].Error() })
	return fmt.Errorf("%d fields are wrong:\n%w", len(problems), errors.Join(problems...))
}

// checkKind refuses a file of another kind, before its fields are reported as
// unknown.
func checkKind(asJSON []byte, kind string) error {
	var header struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(asJSON, &header); err != nil {
		return err
	}
	if header.APIVersion != APIVersion || header.Kind != kind {
		return fmt.Errorf("apiVersion and kind are %q and %q, must be %q and %q", header.APIVersion, header.Kind, APIVersion, kind)
	}
	return nil
}

// checkOneDocument refuses a second YAML document, which the parser would
// silently ignore. Documents of comments alone do not count.
func checkOneDocument(data []byte) error {
	documents, reader := 0, utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if asJSON, err := yaml.YAMLToJSON(document); err == nil && string(asJSON) != "null" {
			documents++
		}
		if documents > 1 {
			return errors.New("there is more than one YAML document")
		}
	}
}
