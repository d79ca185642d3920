package print

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Formats are the output formats for programs.
var Formats = []string{"json", "yaml"}

// Wide is the output format of lists with more columns.
const Wide = "wide"

// CheckFormat returns an error for a format that does not exist. Empty is text
// for people.
func CheckFormat(format string) error {
	if format != "" && !slices.Contains(Formats, format) {
		return fmt.Errorf("--output is %q, want %s", format, strings.Join(Formats, " or "))
	}
	return nil
}

// Found writes found in a format of Formats, and text() for any other format.
func Found(out io.Writer, format string, found any, text func() string) error {
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
