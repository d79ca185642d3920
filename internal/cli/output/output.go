// Package output writes what a verb has found out in the form that was asked for.
package output

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Formats are those for machines.
var Formats = []string{"json", "yaml"}

// Check reports a format that does not exist. Empty is text for people.
func Check(format string) error {
	if format != "" && !slices.Contains(Formats, format) {
		return fmt.Errorf("--output is %q, want %s", format, strings.Join(Formats, " or "))
	}
	return nil
}

// Write writes found in a format of Formats, and text() in any other.
func Write(out io.Writer, format string, found any, text func() string) error {
	var data []byte
	var err error
	switch format {
	case "json":
		data, err = json.MarshalIndent(found, "", "  ")
		data = append(data, '\n')
	case "yaml":
		data, err = yaml.Marshal(found)
	default:
		data = []byte(text())
	}
	if err != nil {
		return fmt.Errorf("encoding as %s: %w", format, err)
	}
	_, err = out.Write(data)
	return err
}
