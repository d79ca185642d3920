package main

import (
	"context"
	"fmt"
	"log"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// measureRound has requesters obtain certificates from the API.
func measureRound(ctx context.Context, s *system, client *requesterClient, r round, obtain obtain) (roundResult, error) {
	waiting, err := newWaiting(ctx, client)
	if err != nil {
		return roundResult{}, err
	}
	defer waiting.stop()
	client.putOff.Store(0)
	result, err := s.measureRound(ctx, r, func(name string, _ int) error {
		_, err := obtain(waiting, ctx, client, name)
		return err
	})
	result.PutOff, result.Resumed, result.InAnswer = client.putOff.Load(), waiting.resumed.Load(), waiting.inAnswer.Load()
	return result, err
}

// measureRound has requesters obtain certificates. A request that fails or gets no
// certificate is counted, and the round continues.
func (s *system) measureRound(ctx context.Context, r round, obtain func(name string, i int) error) (roundResult, error) {
	outcomes := make([]outcome, r.requests)
	names := fmt.Sprintf("bench-%d", time.Now().UnixNano())
	used, err := s.measure(ctx, func() {
		inParallel(ctx, r.requesters, r.requests, func(i int) {
			start := time.Now()
			err := obtain(fmt.Sprintf("%s-%d", names, i), i)
			outcomes[i] = outcome{time.Since(start), err}
		})
	})
	return summarize(r, outcomes, used), err
}

// inParallel calls do for 0 to n-1, in several goroutines, until the context ends.
func inParallel(ctx context.Context, goroutines, n int, do func(i int)) {
	var next atomic.Int64
	var running sync.WaitGroup
	for range goroutines {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	running.Wait()
}

// outcome is the result of one request.
type outcome struct {
	took time.Duration
	err  error
}

// shownErrors is how many errors of a round are printed.
const shownErrors = 5

func summarize(r round, outcomes []outcome, used consumption) roundResult {
	result := roundResult{Requesters: r.requesters, Seconds: used.took.Seconds()}
	var latencies []time.Duration
	for _, o := range outcomes {
		if o.err == nil {
			latencies = append(latencies, o.took)
			continue
		}
		if result.Errors++; result.Errors <= shownErrors {
			log.Printf("%d requesters: %v", r.requesters, o.err)
		}
	}
	result.Certificates = len(latencies)
	result.cost = used.each(result.Certificates)
	result.Rate = ratio(float64(result.Certificates), used.took.Seconds())
	result.P50Milliseconds, result.P99Milliseconds = percentiles(latencies)
	return result
}

// percentiles sorts times, and returns their 50th and 99th percentiles in milliseconds.
func percentiles(took []time.Duration) (p50, p99 float64) {
	if len(took) == 0 {
		return 0, 0
	}
	slices.Sort(took)
	return milliseconds(took[len(took)/2]), milliseconds(took[len(took)*99/100])
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// ratio returns a/b, or 0 if there is nothing to compare with.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
