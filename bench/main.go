// Command bench measures from outside how fast, and at what cost, a server
// takes requests from submission to certificate. It measures certplane, and
// beside it Kubernetes, cert-manager and step-ca if their programs are found.
// It starts all of them itself, one after the other, in temporary folders.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"
	"time"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	log.SetFlags(0)
	if text := os.Getenv(floodEnv); text != "" {
		if err := beStrangers(context.Background(), text, os.Stdin); err != nil {
			log.Fatal(err)
		}
		return
	}
	ctrl.SetLogger(klog.Background())
	opts := parseFlags()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, opts.limit)
	defer cancel()
	if err := run(ctx, opts); err != nil {
		log.Fatalf("bench: %v", err)
	}
}

// part is a part of the measurements. Each starts what it measures, and adds
// what it has measured to the results.
type part struct {
	name, what string
	run        func(context.Context, options, *results) error
}

// parts are all parts in the order in which they run.
var parts = []part{
	{"three-step", "requests that are created, approved and signed, one after the other", measureThreeSteps},
	{"one-write", "the same requests, whose create call answers with the certificate", measureOneWrite},
	{"kubernetes", "the same requests on Kubernetes", measureKubernetes},
	{"pods", "certificates of pods", measurePods},
	{"certificates", "Certificates of cert-manager.io, with cert-manager's controllers beside", measureCertificates},
	{"memory", "memory after many certificates and a calm, and starts with what they leave", measureMemory},
	{"start", "starts on an existing data directory", measureStarts},
	{"agent", "certificates of all pods of one host", measureAgent},
	{"acme", "orders of ACME clients, with step-ca and Pebble beside", measureACME},
	{"floods", "calls of the API while strangers flood the ACME server of the same process", measureFloods},
	{"signing", "step-ca's sign call, and a loop that only signs", measureSigning},
	{"secrets", "memory that unrelated Secrets take", measureSecrets},
	{"inventory", "memory that records of issued certificates take, and searches for them", measureInventory},
	{"console", "pages of the console while many requests wait", measureConsole},
	{"policies", "requests without and with certificate policies", measurePolicies},
}

func run(ctx context.Context, opts options) error {
	results := newResults()
	for _, p := range parts {
		if !slices.Contains(opts.parts, p.name) {
			continue
		}
		log.Printf("%s: %s", p.name, p.what)
		if err := p.run(ctx, opts, results); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	results.compare()
	return results.write(opts.json)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
