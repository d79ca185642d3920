package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"slices"
	"time"
)

// memoryResult is the memory of a server before, right after and some time after many
// certificates.
type memoryResult struct {
	// Idle is before the load.
	Idle restMemory  `json:"idle"`
	Load roundResult `json:"load"`
	// Calm is after CalmSeconds without any load.
	Calm        restMemory `json:"calm"`
	CalmSeconds float64    `json:"calmSeconds"`
}

// memoryRequesters is how many requesters work at the same time.
const memoryRequesters = 64

// measureMemory loads a separate certplane, measures the memory that remains in use after
// the load, and restarts the server on the same data.
func measureMemory(ctx context.Context, s *system, opts options, to *results) error {
	r := &memoryResult{CalmSeconds: opts.calm.Seconds()}
	var err error
	if r.Idle, err = atRest(ctx, s, opts.settle); err != nil {
		return err
	}
	client, err := newRequesterClient(ctx, s.admin)
	if err != nil {
		return err
	}
	if r.Load, err = measureRound(ctx, s, client, round{memoryRequesters, opts.memoryRequests}, (*waiting).obtain); err != nil {
		return err
	}
	log.Printf("calm for %v", opts.calm)
	if r.Calm, err = atRest(ctx, s, opts.calm); err != nil {
		return err
	}
	to.Memory = r
	return to.addStarts(ctx, s, opts, fmt.Sprintf("%d requests", r.Load.Certificates))
}

// startsResult is how long a server takes to be ready on an existing data
// directory.
type startsResult struct {
	// Holds describes the contents of the directory.
	Holds string `json:"holds"`
	// Seconds are sorted.
	Seconds       []float64 `json:"seconds"`
	MedianSeconds float64   `json:"medianSeconds"`
	// CPUSeconds is the median of user and system time until the server is ready.
	CPUSeconds float64 `json:"cpuSeconds"`
}

// measureStarts starts servers on the directory that a first start has made.
func measureStarts(ctx context.Context, s *system, opts options, to *results) error {
	return to.addStarts(ctx, s, opts, "only the files of the first start")
}

// startPause lets a server finish the work that follows its readiness.
const startPause = 3 * time.Second

// addStarts stops the server in an orderly way and starts it again, several
// times.
func (r *results) addStarts(ctx context.Context, s *system, opts options, holds string) error {
	starts := startsResult{Holds: holds}
	var cpu []float64
	for range opts.starts {
		if err := sleep(ctx, startPause); err != nil {
			return err
		}
		if err := s.again(ctx, opts, (*process).stop); err != nil {
			return fmt.Errorf("starting again: %w", err)
		}
		u, err := s.usage()
		if err != nil {
			return err
		}
		starts.Seconds, cpu = append(starts.Seconds, s.startup.Seconds()), append(cpu, u.cpu.Seconds())
	}
	starts.MedianSeconds, starts.CPUSeconds = median(starts.Seconds), median(cpu)
	r.Starts = append(r.Starts, starts)
	return nil
}

// median sorts values and returns the middle one.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func (r *memoryResult) write(out io.Writer) {
	if r == nil {
		return
	}
	fmt.Fprintf(out, "\n%d certificates (%d errors): resident %.0f MB idle, %.0f at the end (%.0f at most), %.0f after %.0f s of calm; anonymous %.0f idle, %.0f after the calm.\n",
		r.Load.Certificates, r.Load.Errors, r.Idle.ResidentMB, r.Load.MemoryMB, r.Load.PeakMB, r.Calm.ResidentMB, r.CalmSeconds, r.Idle.AnonymousMB, r.Calm.AnonymousMB)
}

func writeStarts(out io.Writer, all []startsResult) {
	for _, r := range all {
		fmt.Fprintf(out, "start on a data directory with %s: ready after %.2f s (median of %.2f), %.2f s of CPU.\n", r.Holds, r.MedianSeconds, r.Seconds, r.CPUSeconds)
	}
}
