package apiserver

import (
	"fmt"
	"strings"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"

	"github.com/certplane/certplane/internal/frontend"
)

// addFrontEnds serves front ends at their paths, behind authentication and
// authorization, and passes their probes to addCheck.
func addFrontEnds(paths *mux.PathRecorderMux, addCheck func(...healthz.HealthChecker) error, all []frontend.FrontEnd) error {
	for _, f := range all {
		switch {
		case f.Path == "":
		case strings.HasSuffix(f.Path, "/"):
			paths.HandlePrefix(f.Path, f.Handler)
		default:
			paths.Handle(f.Path, f.Handler)
		}
		if f.Ready == nil {
			continue
		}
		if err := addCheck(healthz.NamedCheck(f.Name, f.Ready)); err != nil {
			return fmt.Errorf("adding the probe of the front end %s to /readyz: %w", f.Name, err)
		}
	}
	return nil
}
