package volume

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// The limits of Linux (NAME_MAX, PATH_MAX).
const (
	maxName = 255
	maxPath = 4096
)

// checkPaths returns an error for files that would be outside the volume, or
// that conflict with each other.
func checkPaths(files Files) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := checkPath(name); err != nil {
			return err
		}
		for parent := path.Dir(name); parent != "."; parent = path.Dir(parent) {
			if _, file := files[parent]; file {
				return fmt.Errorf("path %q: %q is a file of this volume, and cannot be a folder too", name, parent)
			}
		}
	}
	return nil
}

func checkPath(name string) error {
	elements := strings.Split(name, "/")
	switch {
	case name == "" || name == ".":
		return fmt.Errorf("path %q: must name a file", name)
	case path.IsAbs(name):
		return fmt.Errorf("path %q: must be relative", name)
	case slices.Contains(elements, ".."):
		return fmt.Errorf("path %q: must not contain \"..\"", name)
	case strings.HasPrefix(name, ".."):
		return fmt.Errorf("path %q: must not start with \"..\"", name)
	case path.Clean(name) != name:
		return fmt.Errorf("path %q: must be written as %q", name, path.Clean(name))
	case len(name) > maxPath:
		return fmt.Errorf("path %.64q...: longer than %d bytes", name, maxPath)
	case slices.ContainsFunc(elements, func(e string) bool { return len(e) > maxName }):
		return fmt.Errorf("path %.64q...: a name in it is longer than %d bytes", name, maxName)
	}
	return nil
}
