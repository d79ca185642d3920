package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// missingPeers returns why measurements with these programs are not possible, or "" if they
// are.
func missingPeers(assets string, programs ...string) string {
	if assets == "" {
		return "$KUBEBUILDER_ASSETS (or --assets) does not name the folder of its programs; 'make bench-peers' builds them"
	}
	var missing []string
	for _, name := range programs {
		if _, err := os.Stat(filepath.Join(assets, name)); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Sprintf("%s not found in %s; 'make bench-peers' builds them", strings.Join(missing, ", "), assets)
	}
	return ""
}

// startPeer starts a peer's program, and reads the file in which the program writes how it is
// reached. The program renames the file to its name as its last step.
func startPeer(ctx context.Context, opts options, name string, access any, args ...string) (*system, error) {
	return startSystem(name, func(s *system) error {
		if err := s.start(filepath.Join(opts.assets, name), append([]string{"-dir", s.dir}, args...)...); err != nil {
			return err
		}
		var text []byte
		err := s.await(ctx, name+" is ready", func(context.Context) bool {
			written, err := os.ReadFile(filepath.Join(s.dir, "access.json"))
			text = written
			return err == nil
		})
		if err != nil {
			return err
		}
		return json.Unmarshal(text, access)
	})
}
