package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// missingPeers returns why what is made of these programs cannot be measured,
// or "" if it can.
func missingPeers(assets string, programs ...string) string {
	if assets == "" {
		return "$KUBEBUILDER_ASSETS (or --assets) does not say where its programs are; 'make bench-peers' builds them"
	}
	var missing []string
	for _, name := range programs {
		if _, err := os.Stat(filepath.Join(assets, name)); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Sprintf("there is no %s in %s; 'make bench-peers' builds them", strings.Join(missing, ", "), assets)
	}
	return ""
}
