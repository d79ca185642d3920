package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// profiled is how long a CPU profile takes.
const profiled = 25

// startProfile starts a CPU profile and returns a function that waits for its
// end, and then takes a profile of the heap, and the metrics.
func startProfile(ctx context.Context, admin *rest.Config, dir string) (finish func()) {
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		log.Printf("profiling: %v", err)
		return func() {}
	}
	fetch := func(path string, parameters map[string]string, name string) {
		request := client.Discovery().RESTClient().Get().AbsPath(path)
		for key, value := range parameters {
			request.Param(key, value)
		}
		data, err := request.DoRaw(ctx)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o644)
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
