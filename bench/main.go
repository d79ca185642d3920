// Command bench measures a certplane server from outside: how soon it is
// ready, how much memory it holds when idle, and how fast it takes requests
// from submission to certificate. It starts the server itself, in a temporary
// folder.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	log.SetFlags(0)
	var opts options
	flag.IntVar(&opts.requesters, "requesters", 64, "How many requesters work at the same time.")
	flag.IntVar(&opts.requests, "requests", 2000, "How many certificates they obtain together.")
	flag.DurationVar(&opts.settle, "settle", 10*time.Second, "How long the server idles before its memory is read.")
	flag.DurationVar(&opts.limit, "limit", 5*time.Minute, "When to give up.")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: bench [flags] CERTPLANE")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, opts.limit)
	defer cancel()
	if err := run(ctx, flag.Arg(0), opts); err != nil {
		log.Fatalf("bench: %v", err)
	}
}

type options struct {
	requesters, requests int
	settle, limit        time.Duration
}

func run(ctx context.Context, program string, opts options) (err error) {
	fmt.Printf("machine: %d CPUs, %s/%s, %s\n", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	server, err := startServer(ctx, program)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	fmt.Printf("ready after: %v on an empty data directory\n", server.startup.Round(time.Millisecond))

	select {
	case <-time.After(opts.settle):
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := server.reportMemory("idle"); err != nil {
		return err
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", server.kubeconfig)
	if err != nil {
		return err
	}
	cfg.QPS = -1 // no client-side limit
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	if err := measureFlow(ctx, client, opts); err != nil {
		return err
	}
	return server.reportMemory("after the flow")
}

// measureFlow has requesters obtain certificates, each from its own key to
// the certificate in its hands, and prints their rate and latency.
func measureFlow(ctx context.Context, client kubernetes.Interface, opts options) error {
	group, ctx := errgroup.WithContext(ctx)
	latencies := make([]time.Duration, opts.requests)
	var next atomic.Int64
	begin := time.Now()
	for range opts.requesters {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= opts.requests {
					return nil
				}
				start := time.Now()
				if err := obtain(ctx, client, fmt.Sprintf("bench-%d", i)); err != nil {
					return fmt.Errorf("request %d: %w", i, err)
				}
				latencies[i] = time.Since(start)
			}
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	took := time.Since(begin)
	slices.Sort(latencies)
	fmt.Printf("flow: %d certificates by %d requesters in %v: %.0f per second (create, approve, sign, fetch)\n",
		opts.requests, opts.requesters, took.Round(time.Millisecond), float64(opts.requests)/took.Seconds())
	fmt.Printf("latency: median %v, 99%% %v\n",
		latencies[len(latencies)/2].Round(time.Millisecond), latencies[len(latencies)*99/100].Round(time.Millisecond))
	return nil
}
