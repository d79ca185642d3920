package agent

import _ "embed"

// DefaultsFile is a commented configuration file with every default. It is
// generated from the fields' doc comments.
//
//go:embed zz_generated.defaults.yaml
var DefaultsFile string
