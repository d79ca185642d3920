package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
)

// podRound is one load of PodCertificateRequests.
type podRound struct {
	name     string
	requests int
	// perSecond spreads the requests evenly; 0 creates all at once.
	perSecond int
	// kill ends the server without warning when a third is issued, and starts
	// it again.
	kill bool
}

// creators is how many requests are on their way at the same time when all
// are created at once.
const creators = 64

// measurePods loads a certplane of its own with requests of pods. Kubernetes
// has no signer for them to compare with.
func measurePods(ctx context.Context, opts options) (results []podResult, err error) {
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

func measurePodRound(ctx context.Context, s *system, opts options, fleet *fleet, r podRound) (podResult, error) {
	before, err := s.usage()
	if err != nil {
		return podResult{}, err
	}
	answers, err := follow(ctx, fleet, r)
	if err != nil {
		return podResult{}, err
	}
	defer answers.stop()
	log.Printf("round %s: %d requests", r.name, r.requests)
	begin := time.Now()
	var killed error
	var killing sync.WaitGroup
	if r.kill {
		killing.Go(func() { killed = killAndRestart(ctx, s, opts, answers, r.requests/3) })
	}
	failed := create(ctx, fleet, r, answers)
	answers.await(ctx)
	took := time.Since(begin)
	killing.Wait()
	if err := errors.Join(killed, ctx.Err()); err != nil {
		return podResult{}, err
	}
	result := answers.result(r, took)
	result.Errors = failed
	after, err := s.usage()
	if !r.kill && result.Issued > 0 {
		result.ServerCPUMilliseconds = milliseconds(after.cpu-before.cpu) / float64(result.Issued)
	}
	result.MemoryMB = after.residentMB
	return result, err
}

// killAndRestart kills the server as soon as it has issued so many, and
// returns when it runs again.
func killAndRestart(ctx context.Context, s *system, opts options, answers *answers, after int) error {
	for answers.issued.Load() < int64(after) {
		if err := sleep(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	log.Printf("killing the server after %d certificates", answers.issued.Load())
	return s.restartCertplane(ctx, opts)
}

// create sends all requests of a round and returns how many could not be
// created.
func create(ctx context.Context, fleet *fleet, r podRound, answers *answers) (failed int) {
	var next, failures atomic.Int64
	send := func(i int) {
		name := answers.name(i)
		answers.expect(name)
		if err := createOne(ctx, fleet, fleet.request(name, i)); err != nil {
			if failures.Add(1) <= shownErrors {
				log.Printf("round %s: %v", r.name, err)
			}
			answers.forget(name)
		}
	}
	var sending sync.WaitGroup
	if r.perSecond > 0 {
		pace := time.NewTicker(time.Second / time.Duration(r.perSecond))
		defer pace.Stop()
		for i := 0; i < r.requests && ctx.Err() == nil; i++ {
			<-pace.C
			sending.Go(func() { send(i) })
		}
	} else {
		for range creators {
			sending.Go(func() {
				for i := int(next.Add(1)) - 1; i < r.requests && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
					send(i)
				}
			})
		}
	}
	sending.Wait()
	return int(failures.Load())
}

// comeBack is how nodes try again when the server is away: for longer than it
// takes to start.
var comeBack = wait.Backoff{Duration: 50 * time.Millisecond, Factor: 1.5, Jitter: 0.5, Steps: 20, Cap: 2 * time.Second}

// createOne creates a request, whatever it takes. One whose answer got lost is
// there already.
func createOne(ctx context.Context, fleet *fleet, request *certificatesv1.PodCertificateRequest) error {
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, comeBack, func(ctx context.Context) (bool, error) {
		last = fleet.create(ctx, request)
		if last == nil || apierrors.IsAlreadyExists(last) {
			return true, nil
		}
		if apierrors.IsInvalid(last) || apierrors.IsForbidden(last) {
			return false, last
		}
		return false, nil
	})
	if wait.Interrupted(err) {
		return errors.Join(err, last)
	}
	return err
}
