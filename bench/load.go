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

// measureRound has requesters obtain certificates. A request that fails or gets
// no certificate is counted, and the round continues.
func measureRound(ctx context.Context, s *system, client *requesterClient, r round, obtain obtain) (roundResult, error) {
	waiting, err := newWaiting(ctx, client)
	if err != nil {
		return roundResult{}, err
	}
	defer waiting.stop()
	client.putOff.Store(0)
	measuring, err := startMeasuring(s)
	if err != nil {
		return roundResult{}, err
	}
	outcomes := obtainAll(ctx, r, func(name string, _ int) error {
		_, err := obtain(waiting, ctx, client, name)
		return err
	})
	used, err := measuring.finish()
	if err != nil {
		return roundResult{}, err
	}
	result := summarize(r, outcomes, used.took)
	result.PutOff, result.Resumed, result.InAnswer = client.putOff.Load(), waiting.resumed.Load(), waiting.inAnswer.Load()
	if n := result.Certificates; n > 0 {
		result.ServerCPUMilliseconds, result.ClientCPUMilliseconds = each(used.serverCPU, n), each(used.clientCPU, n)
	}
	result.MemoryMB, result.PeakMB = used.memoryMB, used.peakMB
	return result, ctx.Err()
}

// outcome is the result of one request.
type outcome struct {
	took time.Duration
	err  error
}

func obtainAll(ctx context.Context, r round, obtain func(name string, i int) error) []outcome {
	outcomes := make([]outcome, r.requests)
	names := fmt.Sprintf("bench-%d", time.Now().UnixNano())
	var next atomic.Int64
	var requesters sync.WaitGroup
	for range r.requesters {
		requesters.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= r.requests {
					return
				}
				start := time.Now()
				err := obtain(fmt.Sprintf("%s-%d", names, i), i)
				outcomes[i] = outcome{time.Since(start), err}
			}
		})
	}
	requesters.Wait()
	return outcomes
}

// shownErrors is how many errors of a round are printed.
const shownErrors = 5

func summarize(r round, outcomes []outcome, took time.Duration) roundResult {
	result := roundResult{Requesters: r.requesters, Seconds: took.Seconds()}
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
	result.Rate = float64(result.Certificates) / took.Seconds()
	if len(latencies) > 0 {
		slices.Sort(latencies)
		result.P50Milliseconds = milliseconds(latencies[len(latencies)/2])
		result.P99Milliseconds = milliseconds(latencies[len(latencies)*99/100])
	}
	return result
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
