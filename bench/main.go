// Command bench measures from outside how fast, and at what cost, a server takes requests
// from submission to certificate. It measures certplane and, for comparison, Kubernetes,
// cert-manager and step-ca if their programs are found. It starts all of them itself, one
// after the other, in temporary folders.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"
	"time"

	"k8s.io/client-go/rest"
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
	rest.SetDefaultWarningHandler(rest.NoWarnings{}) // about its own objects
	opts := parseFlags()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, opts.limit)
	defer cancel()
	if err := run(ctx, opts); err != nil {
		log.Fatalf("bench: %v", err)
	}
}

// part is a part of the measurements. Each part starts the systems that it measures, and
// adds its measurements to the results.
type part struct {
	name, what string
	run        func(context.Context, options, *results) error
	// others means that it does not measure certplane.
	others bool
}

// parts are all parts in the order in which they run.
var parts = []part{
	{"three-step", "requests that are created, approved and signed, one after the other", measureThreeSteps, false},
	{"one-write", "the same requests, whose create call answers with the certificate", measureOneWrite, false},
	{"kubernetes", "the same requests on Kubernetes", measureKubernetes, true},
	{"pods", "certificates of pods", onCertplane(measurePods), false},
	{"certificates", "Certificates of cert-manager.io", measureCertificates, false},
	{"cert-manager", "the same Certificates with cert-manager's controllers", measureCertManager, true},
	{"memory", "memory after many certificates and a pause, and starts with the data that remains", onCertplane(measureMemory), false},
	{"start", "starts on an existing data directory", onCertplane(measureStarts), false},
	{"agent", "certificates of all pods of one host", onCertplane(measureAgent), false},
	{"acme", "orders of ACME clients", measureACME, false},
	{"acme-peers", "the same orders at step-ca and Pebble", measureACMEPeers, true},
	{"floods", "calls of the API while strangers flood the ACME server of the same process", measureFloods, false},
	{"signing", "step-ca's sign call, and a loop that only signs", measureSigning, true},
	{"secrets", "memory that unrelated Secrets take", onCertplane(measureSecrets), false},
	{"inventory", "memory that records of issued certificates take, and searches for them", onCertplane(measureInventory), false},
	{"console", "pages of the console while many requests wait", onCertplane(measureConsole), false},
	{"policies", "requests without and with certificate policies", onCertplane(measurePolicies), false},
	{"revocation", "how soon and at what cost certificates are revoked, one by one and by the hundred thousand", measureRevocation, false},
	{"trust", "targets of Bundles, also with trust-manager, and of TrustBundles", measureTrust, false},
	{"growth", "one more object, a certificate, and a second at rest, by the number of stored objects", measureGrowth, false},
}

// onCertplane returns a part that has a certplane of its own.
func onCertplane(run func(context.Context, *system, options, *results) error) func(context.Context, options, *results) error {
	return func(ctx context.Context, opts options, to *results) error {
		s, err := startCertplane(ctx, opts)
		if err != nil {
			return err
		}
		return errors.Join(run(ctx, s, opts, to), s.stop())
	}
}

// run measures the chosen parts once, or several times if it is a guard.
func run(ctx context.Context, opts options) error {
	var chosen []part
	for _, p := range parts {
		if slices.Contains(opts.parts, p.name) {
			chosen = append(chosen, p)
		}
	}
	var rounds []*results
	for i := range max(1, opts.guard) {
		r, err := measure(ctx, opts, chosen, i%2 == 1)
		if err != nil {
			return err
		}
		rounds = append(rounds, r)
	}
	if opts.guard == 0 {
		rounds[0].Compared = compareWithBefore(rounds)
		return rounds[0].write(opts.json)
	}
	all := newResults()
	all.Rounds, all.Compared, all.Missing = rounds, compareWithBefore(rounds), rounds[0].Missing
	return errors.Join(all.write(opts.json), verdict(all.Compared))
}

// measure measures parts, each also with an older certplane if there is one: one right after
// the other, so that both have the same machine.
func measure(ctx context.Context, opts options, parts []part, olderFirst bool) (*results, error) {
	type program struct {
		options
		to *results
	}
	now := newResults()
	programs := []program{{opts, now}}
	if opts.before != "" {
		now.Before = newResults()
		older := program{opts, now.Before}
		older.certplane, older.profile = opts.before, ""
		programs = append(programs, older)
	}
	if olderFirst {
		slices.Reverse(programs)
	}
	for _, p := range parts {
		for _, of := range programs {
			if p.others && of.to != now {
				continue
			}
			name := p.name
			if opts.before != "" && !p.others {
				name += " of " + of.certplane
			}
			log.Printf("%s: %s", name, p.what)
			if err := p.run(ctx, of.options, of.to); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	now.compare()
	return now, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
