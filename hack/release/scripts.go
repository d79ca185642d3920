package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// script is a package of npm whose files the console serves.
type script struct{ name, version, license string }

// readScripts returns the packages that hack/consoleassets.sh downloaded.
func readScripts(src source) ([]script, error) {
	list, err := os.ReadFile(filepath.Join(src.dir, "hack/consoleassets.sha256"))
	if err != nil {
		return nil, err
	}
	var scripts []script
	for line := range strings.Lines(string(list)) {
		text, found := strings.CutPrefix(strings.TrimSpace(line), "# pkg:npm/")
		if !found {
			continue
		}
		name, version, _ := strings.Cut(text, "@")
		license, err := os.ReadFile(filepath.Join(src.dir, "internal/client/console/assets/LICENSE."+name))
		if err != nil {
			return nil, err
		}
		scripts = append(scripts, script{name, version, string(license)})
	}
	if len(scripts) == 0 {
		return nil, errors.New("hack/consoleassets.sha256 names no package")
	}
	return scripts, nil
}

// component returns the package as a part of the program.
func (s script) component() cdx.Component {
	name := "pkg:npm/" + s.name + "@" + s.version
	return cdx.Component{Type: cdx.ComponentTypeLibrary, Name: s.name, Version: s.version, BOMRef: name, PackageURL: name}
}
