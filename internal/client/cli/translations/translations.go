// Package translations keeps kubectl from loading its translated texts in programs that do
// not run it. They take a quarter of the time of a short command.
package translations

import (
	"os"
	"slices"
	"strings"

	"k8s.io/kubectl/pkg/util/i18n"
)

// Late is an error if kubectl's packages have loaded the texts before. Go initializes
// packages whose imports are initialized in the order of their paths, so this one first.
var Late = omit(os.Args)

func omit(args []string) error {
	if slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, "kubectl") }) {
		return nil
	}
	return i18n.SetLoadTranslationsFunc(func() error { return nil })
}
