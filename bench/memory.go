package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"slices"
	"time"
)

// memoryResult is what a server needs before, right after and some time after
// many certificates.
type memoryResult struct {
	Certificates int `json:"certificates"`
	Errors       int `json:"errors"`
	// Idle is before any load; EndMB is resident memory right after it, PeakMB the
	// most that there was.
	Idle   restMemory `json:"idle"`
	EndMB  float64    `json:"endMB"`
	PeakMB float64    `json:"peakMB"`
	// Calm is after CalmSeconds without any load.
	Calm        restMemory `json:"calm"`
	CalmSeconds float64    `json:"calmSeconds"`
}

// memoryRequesters is how many requesters work at the same time.
const memoryRequesters = 64

// measureMemory loads a certplane of its own, watches what the load leaves, and
// starts the server again on it.
func measureMemory(ctx context.Context, opts options, to *results) (err error) {
	s, err := startCertplane(ctx, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	r := &memoryResult{CalmSeconds: opts.calm.Seconds()}
	if r.Idle, err = atRest(ctx, s, opts.settle); err != nil {
		return err
	}
	client, err := newRequesterClient(ctx, s.admin)
	if err != nil {
		return err
	}
	load, err := measureRound(ctx, s, client, round{memoryRequesters, opts.memoryRequests}, (*waiting).obtain)
	if err != nil {
		return err
	}
	r.Certificates, r.Errors, r.EndMB, r.PeakMB = load.Certificates, load.Errors, load.MemoryMB, load.PeakMB
	log.Printf("calm for %v", opts.calm)
	if r.Calm, err = atRest(ctx, s, opts.calm); err != nil {
		return err
	}
	to.Memory = r
	return to.addStarts(ctx, s, opts, fmt.Sprintf("%d requests", r.Certificates))
}

// startsResult is how long a server takes to be ready on an existing data
// directory.
type startsResult struct {
	// Holds is what the directory holds.
	Holds string `json:"holds"`
	// Seconds are sorted.
	Seconds       []float64 `json:"seconds"`
	MedianSeconds float64   `json:"medianSeconds"`
	// CPUSeconds is the median of user and system time until the server is ready.
	CPUSeconds float64 `json:"cpuSeconds"`
}

// measureStarts starts servers on the directory that a first start has made.
func measureStarts(ctx context.Context, opts options, to *results) (err error) {
	s, err := startCertplane(ctx, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	return to.addStarts(ctx, s, opts, "what the first start made")
}

// startPause lets a server finish what it does after it is ready.
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
	fmt.Fprintf(out, "\n%d certificates (%d errors): resident %.0f MB idle, %.0f at the end (%.0f at most), %.0f after %.0f s of calm; anonymous %.0f idle, %.0f after the calm.\n",
		r.Certificates, r.Errors, r.Idle.ResidentMB, r.EndMB, r.PeakMB, r.Calm.ResidentMB, r.CalmSeconds, r.Idle.AnonymousMB, r.Calm.AnonymousMB)
}

func (r startsResult) write(out io.Writer) {
	fmt.Fprintf(out, "start on a data directory with %s: ready after %.2f s (median of %.2f), %.2f s of CPU.\n", r.Holds, r.MedianSeconds, r.Seconds, r.CPUSeconds)
}
