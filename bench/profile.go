package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
)

// profiled is how long a CPU profile takes.
const profiled = 25

// profiledParts are the parts whose first round can be profiled.
var profiledParts = []string{"three-step", "one-write", "pods", "certificates", "acme", "policies", "console", "revocation"}

// startProfile starts a CPU profile and returns a function that waits for its end, and then
// takes a profile of the heap, and the metrics. Both do nothing unless this is the first
// round of the part that takes the profiles: the first one that can.
func (o options) startProfile(ctx context.Context, s *system, part string, round int) (finish func()) {
	first := slices.IndexFunc(o.parts, func(name string) bool { return slices.Contains(profiledParts, name) })
	if o.profile == "" || round > 0 || first < 0 || o.parts[first] != part {
		return func() {}
	}
	fetch := func(path string, parameters map[string]string, name string) {
		data, err := get(ctx, s.admin, path, parameters)
		if err == nil {
			err = os.WriteFile(filepath.Join(o.profile, name), data, 0o644)
		}
		if err != nil {
			log.Printf("profiling: %v", err)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		fetch("/debug/pprof/profile", map[string]string{"seconds": fmt.Sprint(profiled)}, "cpu.pprof")
	}()
	return func() {
		<-done
		fetch("/debug/pprof/heap", nil, "heap.pprof")
		fetch("/debug/pprof/allocs", nil, "allocs.pprof")
		fetch("/metrics", nil, "metrics.txt")
	}
}
