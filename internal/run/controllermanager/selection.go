package controllermanager

import (
	"fmt"
	"slices"
	"strings"

	"github.com/certplane/certplane/internal/rights"
)

// everything stands for all controllers that are on by default.
const everything = "*"

// Selection chooses controllers by name.
type Selection []string

// Doc lists the names, for the comments of configuration files.
func (Selection) Doc() string {
	text := &strings.Builder{}
	for _, name := range rights.Names() {
		var does []string
		where := ""
		for _, c := range rights.Controllers() {
			if c.Name == name {
				does = append(does, c.Doc)
			}
			if c.Name == name && c.Where != rights.Everywhere {
				where = " (" + string(c.Where) + ")"
			}
		}
		fmt.Fprintf(text, "- %s%s: %s\n", name, where, strings.Join(does, "; "))
	}
	for _, set := range rights.Sets() {
		fmt.Fprintf(text, "- %s: %s\n", set.Name, strings.Join(set.Controllers, ", "))
	}
	return text.String()
}

// expanded returns the choice with the names of controllers in place of sets. An entry for a
// controller itself overrides a set.
func (s Selection) expanded() Selection {
	all := slices.Clone(s)
	for _, set := range rights.Sets() {
		for _, name := range set.Controllers {
			for _, sign := range []string{"", "-"} {
				if slices.Contains(s, sign+set.Name) && !slices.Contains(s, name) && !slices.Contains(s, "-"+name) {
					all = append(all, sign+name)
				}
			}
		}
	}
	return all
}

// Chooses reports whether a controller is to run.
func (c Config) Chooses(controller rights.Controller) bool {
	byName := controller.Where == rights.OnlyClusters
	if !c.InCluster && (byName || controller.Where == rights.InClusters) {
		return false
	}
	choice := c.Settings.Controllers.expanded()
	if byName || c.InCluster && controller.Where == rights.ByName {
		return slices.Contains(choice, controller.Name)
	}
	return selected(choice, controller.Name)
}

// AnswersForIssuers reports whether all requests for issuers of cert-manager.io are
// answered here, and not by cert-manager.
func (c Config) AnswersForIssuers() bool {
	return c.Chooses(rights.AnswerRequests) && c.Chooses(rights.AnswerCSRs)
}

// selected reports whether a choice includes a controller. As in Kubernetes'
// components, an entry for the controller itself overrides "*".
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

// checkSelection rejects unknown controllers and sets, and choices that
// select none.
func checkSelection(choice []string) error {
	names := rights.Choices()
	for _, item := range choice {
		if item == "-"+everything {
			return fmt.Errorf("%q has no effect: controllers that are not named do not run; use one of %s", item, strings.Join(names, ", "))
		}
		if name := strings.TrimPrefix(item, "-"); item != everything && !slices.Contains(names, name) {
			kind := "controller"
			if strings.HasPrefix(name, "@") {
				kind, names = "set", names[len(rights.Names()):]
			}
			return fmt.Errorf("unknown %s %q: use one of %s, or * for all", kind, name, strings.Join(names, ", "))
		}
	}
	return nil
}
