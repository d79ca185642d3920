package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"
)

// podRound is one load of PodCertificateRequests.
type podRound struct {
	name     string
	requests int
	// perSecond spreads the requests evenly; 0 creates all at once.
	perSecond int
	// kill kills the server when a third of the certificates is issued, and starts
	// it again.
	kill bool
}

// measurePods loads a certplane of its own with requests of pods. Kubernetes
// has no signer for them, so there is no comparison.
func measurePods(ctx context.Context, opts options) (results []loadResult, err error) {
	s, err := startCertplane(ctx, opts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	fleet, err := newFleet(ctx, s.admin)
	if err != nil {
		return nil, fmt.Errorf("preparing pods: %w", err)
	}
	for _, r := range opts.podRounds {
		result, err := measurePodRound(ctx, s, opts, fleet, r)
		if err != nil {
			return nil, fmt.Errorf("round %s: %w", r.name, err)
		}
		results = append(results, result)
	}
	return results, nil
}

func measurePodRound(ctx context.Context, s *system, opts options, fleet *fleet, r podRound) (loadResult, error) {
	before, err := s.usage()
	if err != nil {
		return loadResult{}, err
	}
	answers, err := follow(ctx, fleet, r)
	if err != nil {
		return loadResult{}, err
	}
	defer answers.stop()
	log.Printf("round %s: %d requests", r.name, r.requests)
	begin := time.Now()
	var killed error
	var killing sync.WaitGroup
	if r.kill {
		killing.Go(func() { killed = killAndRestart(ctx, s, opts, answers, r.requests/3) })
	}
	failed := create(ctx, load{r.requests, r.perSecond}, answers, func(ctx context.Context, name string, i int) error {
		return fleet.create(ctx, fleet.request(name, i))
	})
	answers.await(ctx)
	took := time.Since(begin)
	killing.Wait()
	if err := errors.Join(killed, ctx.Err()); err != nil {
		return loadResult{}, err
	}
	result := answers.result(r.requests, took)
	result.Errors = failed
	after, err := s.usage()
	if !r.kill && result.Issued > 0 {
		result.ServerCPUMilliseconds = milliseconds(after.cpu-before.cpu) / float64(result.Issued)
	}
	result.MemoryMB = after.residentMB
	return result, err
}

// killAndRestart kills the server as soon as it has issued this many
// certificates, and returns when it runs again.
func killAndRestart(ctx context.Context, s *system, opts options, answers *answers, after int) error {
	for answers.issued.Load() < int64(after) {
		if err := sleep(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	log.Printf("killing the server after %d certificates", answers.issued.Load())
	return s.restartCertplane(ctx, opts)
}
