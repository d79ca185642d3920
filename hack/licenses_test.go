package hack

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// unwanted matches the texts of licenses that ask more of those who ship the
// product than to name it, or forbid a use.
var unwanted = regexp.MustCompile(`(?i)mozilla\s+public\s+licen[sc]e|business\s+source\s+licen[sc]e|gnu\s+(lesser\s+|affero\s+)?general\s+public\s+licen[sc]e|server\s+side\s+public\s+licen[sc]e|(^|\W)(MPL|BUSL|AGPL|LGPL|GPL|SSPL)-\d`)

// permissive matches the names of a wanted license, by which a text may mention
// an unwanted one for comparison or as an alternative.
var permissive = regexp.MustCompile(`(?i)^\s*(apache\s+license|the mit license|mit license|copyright[^\n]*\n[\s\S]{0,400}(redistribution and use|permission is hereby granted))`)

// isUnwanted reports whether the product must not depend on what is under a
// license.
func isUnwanted(text string) bool { return unwanted.MatchString(text) && !permissive.MatchString(text) }

func TestIsUnwanted(t *testing.T) {
	for _, test := range []struct {
		reason, text string
		want         bool
	}{
		{"Apache", "                                 Apache License\n                           Version 2.0, January 2004\n", false},
		{"BSD", "Copyright (c) 2009 The Go Authors. All rights reserved.\n\nRedistribution and use in source and binary forms, with", false},
		{"MIT", "The MIT License (MIT)\n\nCopyright (c) 2015 Somebody\n", false},
		{"MPL", "Copyright (c) 2015 HashiCorp, Inc.\n\nMozilla Public License, version 2.0\n\n1. Definitions\n", true},
		{"BUSL", "License text copyright (c) 2020 MariaDB Corporation Ab\n\nParameters\n\nThe Business Source License (this document\n", true},
		{"GPL", "                    GNU GENERAL PUBLIC LICENSE\n                       Version 3, 29 June 2007\n", true},
		{"SPDX", "SPDX-License-Identifier: MPL-2.0\n", true},
	} {
		if got := isUnwanted(test.text); got != test.want {
			t.Errorf("%s: %v", test.reason, got)
		}
	}
}

// The product requires no module whose license is not permissive. Modules under
// test may: they have go.mod files of their own.
func TestLicenses(t *testing.T) {
	var file struct{ Require []struct{ Path string } }
	if err := json.Unmarshal(goCommand(t, "mod", "edit", "-json"), &file); err != nil {
		t.Fatal(err)
	}
	arguments := []string{"list", "-m", "-f", "{{.Path}} {{.Dir}}"}
	for _, module := range file.Require {
		arguments = append(arguments, module.Path)
	}
	checked := 0
	for line := range strings.Lines(string(goCommand(t, arguments...))) {
		module, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		if dir == "" {
			continue // nothing that is built here needs it
		}
		texts := licensesIn(t, dir)
		if len(texts) == 0 {
			t.Errorf("%s has no license", module)
		}
		for name, text := range texts {
			if isUnwanted(text) {
				t.Errorf("%s must not be required by the product: see its %s", module, name)
			}
		}
		checked++
	}
	if checked < len(file.Require)/2 {
		t.Errorf("only %d of %d modules are in the module cache: run 'go mod download'", checked, len(file.Require))
	}
}

var licenseName = regexp.MustCompile(`(?i)^(licen[sc]e|copying)([.-].*)?$`)

// licensesIn returns the license files at the top of a module.
func licensesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, entry := range entries {
		if entry.IsDir() || !licenseName.MatchString(entry.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		texts[entry.Name()] = string(text)
	}
	return texts
}

// goCommand runs the go command at the top of the tree.
func goCommand(t *testing.T, arguments ...string) []byte {
	t.Helper()
	command := exec.Command("go", arguments...)
	command.Dir = ".."
	var problems bytes.Buffer
	command.Stderr = &problems
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(arguments[:2], " "), err, problems.Bytes())
	}
	return out
}
