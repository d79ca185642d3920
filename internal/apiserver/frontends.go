package apiserver

import (
	"fmt"
	"strings"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"

	"github.com/certplane/certplane/internal/frontend"
)

// hang serves front ends at their paths, behind authentication and
// authorization, and calls ask with their probes.
func hang(paths *mux.PathRecorderMux, ask func(...healthz.HealthChecker) error, all []frontend.FrontEnd) error {
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
		if err := ask(healthz.NamedCheck(f.Name, f.Ready)); err != nil {
			return fmt.Errorf("having /readyz ask the front end %s: %w", f.Name, err)
		}
	}
	return nil
}
