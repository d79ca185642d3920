package controllers

import (
	"fmt"
	"slices"
	"strings"
)

// everything stands for all controllers that are on by default.
const everything = "*"

// Chooses tells whether a controller is to run.
func (c Config) Chooses(name string) bool {
	if slices.Contains(c.OnlyByName, name) {
		return slices.Contains(c.Settings.Controllers, name)
	}
	return selected(c.Settings.Controllers, name)
}

// selected tells whether a choice names a controller. As in Kubernetes'
// components, what is said of the controller itself counts more than "*".
func selected(choice []string, name string) bool {
	switch {
	case slices.Contains(choice, name):
		return true
	case slices.Contains(choice, "-"+name):
		return false
	default:
		return slices.Contains(choice, everything)
	}
}

// checkSelection refuses names of no controller, and choices of none.
func checkSelection(choice []string) error {
	var names []string
	for _, c := range all {
		names = append(names, c.name)
	}
	names = slices.Compact(names)
	for _, item := range choice {
		if item == "-"+everything {
			return fmt.Errorf("%q turns nothing off: what is not named does not run; there are %s", item, strings.Join(names, ", "))
		}
		if name := strings.TrimPrefix(item, "-"); item != everything && !slices.Contains(names, name) {
			return fmt.Errorf("%q is no controller: there are %s, and * for all", name, strings.Join(names, ", "))
		}
	}
	return nil
}
