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
	// oneWrite has the create call answer with the certificate.
	oneWrite bool
	// kill kills the server when a third of the certificates is issued, and starts
	// it again.
	kill bool
}

// measurePods loads a separate certplane with requests of pods. Kubernetes has no signer for
// them, so there is nothing to compare with.
func measurePods(ctx context.Context, s *system, opts options, to *results) error {
	fleet, err := newFleet(ctx, s.admin)
	if err != nil {
		return fmt.Errorf("preparing pods: %w", err)
	}
	for i, r := range opts.podRounds {
		finish := opts.startProfile(ctx, s, "pods", i)
		result, err := measurePodRound(ctx, s, opts, fleet, r)
		if err != nil {
			return fmt.Errorf("round %s: %w", r.name, err)
		}
		finish()
		to.Pods = append(to.Pods, result)
	}
	return nil
}

func measurePodRound(ctx context.Context, s *system, opts options, fleet *fleet, r podRound) (loadResult, error) {
	answers, err := follow(ctx, fleet, r)
	if err != nil {
		return loadResult{}, err
	}
	defer answers.stop()
	log.Printf("round %s: %d requests", r.name, r.requests)
	var result loadResult
	var killed error
	used, err := s.measure(ctx, func() {
		var killing sync.WaitGroup
		if r.kill {
			killing.Go(func() { killed = killAndRestart(ctx, s, opts, answers, r.requests/3) })
		}
		result = answers.load(ctx, load{r.requests, r.perSecond}, func(ctx context.Context, name string, i int) error {
			created, err := fleet.create(ctx, fleet.request(name, i, r.oneWrite))
			if err == nil && answers.see(created) {
				answers.inAnswer.Add(1)
			}
			return err
		})
		killing.Wait()
	})
	if r.kill { // two processes, one after the other
		used.serverCPU, used.byProcess, used.allocated = 0, nil, allocated{}
	}
	result.cost = used.each(result.Issued)
	return result, errors.Join(killed, err)
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
