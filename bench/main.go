// Command bench measures from outside how fast, and at what cost, a server
// takes requests from submission to certificate. It measures certplane, and
// etcd, kube-apiserver and kube-controller-manager if their programs are found.
// It starts all of them itself, one after the other, in temporary folders.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	log.SetFlags(0)
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

// options are the values of the flags.
type options struct {
	certplane string // path of the program
	assets    string // folder of the peers' programs; empty: they are not measured
	json      string // file to write, or empty
	profile   string // folder for profiles of certplane, or empty

	rounds    []round
	podRounds []podRound
	// certificateRounds are of Certificates of cert-manager.io.
	certificateRounds []certificateRound
	secrets           secretLoad
	policies          policyLoad
	settle, limit     time.Duration
}

// round is one load: a number of requesters together obtain a number of
// certificates.
type round struct {
	name                 string
	requesters, requests int
}

func parseFlags() options {
	steady, burst := round{name: "steady"}, round{name: "burst"}
	var podRequests, certificates int
	var opts options
	flag.IntVar(&steady.requests, "requests", 12000, "How many certificates the requesters obtain together.")
	flag.IntVar(&steady.requesters, "requesters", 64, "How many requesters work at the same time.")
	flag.IntVar(&burst.requests, "burst-requests", 2560, "How many certificates are obtained in the burst that follows; 0 is no burst.")
	flag.IntVar(&burst.requesters, "burst-requesters", 256, "How many requesters work at the same time in the burst.")
	flag.IntVar(&podRequests, "pod-requests", 10000, "How many certificates of pods are requested at once, once in peace and once while the server is killed; 0 leaves pods out.")
	flag.IntVar(&certificates, "certificates", 1000, "How many Certificates of cert-manager.io are created at once, once with ECDSA and once with RSA keys; 0 leaves them out.")
	flag.IntVar(&opts.secrets.secrets, "secrets", 30000, "How many unrelated Secrets are created to see what memory they take; 0 leaves them out.")
	flag.IntVar(&opts.secrets.bytes, "secret-bytes", 4096, "How much each of them holds.")
	flag.IntVar(&opts.policies.requests, "policy-requests", 3000, "How many certificates are obtained in each of several rounds without and with policies; 0 leaves them out.")
	flag.IntVar(&opts.policies.policies, "policies", 20, "How many policies there are in these rounds; half of them are about the requests.")
	flag.DurationVar(&opts.settle, "settle", 10*time.Second, "How long a server idles before its idle memory is read, and after each round.")
	flag.DurationVar(&opts.limit, "limit", 15*time.Minute, "When to give up.")
	flag.StringVar(&opts.assets, "assets", os.Getenv("KUBEBUILDER_ASSETS"), "Folder with etcd, kube-apiserver and kube-controller-manager; empty measures certplane alone. Default: $KUBEBUILDER_ASSETS.")
	flag.StringVar(&opts.json, "json", "", "File for the results as JSON; '-' prints JSON instead of a table.")
	flag.StringVar(&opts.profile, "profile", "", "Folder for CPU and heap profiles of certplane during the first round of requests; if there is none, of Certificates or with policies.")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: bench [flags] CERTPLANE")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	opts.certplane = flag.Arg(0)
	opts.policies.requesters, opts.policies.times = steady.requesters, 4
	if steady.requests > 0 {
		opts.rounds = append(opts.rounds, steady)
	}
	if burst.requests > 0 {
		opts.rounds = append(opts.rounds, burst)
	}
	if podRequests > 0 {
		opts.podRounds = []podRound{
			{name: "at-once", requests: podRequests},
			{name: "steady", requests: min(podRequests, 30*podsPerSecond), perSecond: podsPerSecond},
			{name: "killed", requests: podRequests, kill: true},
		}
	}
	if certificates > 0 {
		opts.certificateRounds = []certificateRound{
			{name: "ecdsa", certificates: certificates, algorithm: cmv1.ECDSAKeyAlgorithm},
			{name: "rsa", certificates: certificates, algorithm: cmv1.RSAKeyAlgorithm},
		}
	}
	return opts
}

// podsPerSecond is the rate of the round that measures how soon pods get their
// certificates.
const podsPerSecond = 200

func run(ctx context.Context, opts options) error {
	starts := []func(context.Context, options) (*system, error){startCertplane}
	missing := missingPeers(opts.assets)
	switch {
	case len(opts.rounds) == 0:
		starts = nil
	case missing == "":
		starts = append(starts, startKubernetes)
	default:
		log.Printf("Kubernetes is not measured: %s", missing)
	}
	results := newResults(missing)
	for _, start := range starts {
		measured, err := measure(ctx, start, opts)
		if err != nil {
			return err
		}
		results.Systems = append(results.Systems, measured)
	}
	if len(opts.podRounds) > 0 {
		pods, err := measurePods(ctx, opts)
		if err != nil {
			return fmt.Errorf("measuring pods: %w", err)
		}
		results.Pods = pods
	}
	if len(opts.certificateRounds) > 0 {
		certificates, err := measureCertificates(ctx, opts)
		if err != nil {
			return fmt.Errorf("measuring Certificates: %w", err)
		}
		results.Certificates = certificates
	}
	if opts.secrets.secrets > 0 {
		secrets, err := measureSecrets(ctx, opts)
		if err != nil {
			return fmt.Errorf("measuring Secrets: %w", err)
		}
		results.Secrets = secrets
	}
	if opts.policies.requests > 0 {
		policies, err := measurePolicies(ctx, opts)
		if err != nil {
			return fmt.Errorf("measuring policies: %w", err)
		}
		results.Policies = policies
	}
	results.compare()
	return results.write(opts.json)
}

// measure starts a system, loads it, and stops it.
func measure(ctx context.Context, start func(context.Context, options) (*system, error), opts options) (result systemResult, err error) {
	system, err := start(ctx, opts)
	if err != nil {
		return systemResult{}, err
	}
	defer func() { err = errors.Join(err, system.stop()) }()
	log.Printf("%s is ready", system.name)
	client, err := newRequesterClient(ctx, system.admin)
	if err != nil {
		return systemResult{}, fmt.Errorf("preparing the requesters of %s: %w", system.name, err)
	}
	if err := sleep(ctx, opts.settle); err != nil {
		return systemResult{}, err
	}
	idle, err := system.usage()
	if err != nil {
		return systemResult{}, err
	}
	result = systemResult{Name: system.name, ReadySeconds: system.startup.Seconds(), MemoryIdleMB: idle.residentMB, AnonymousIdleMB: idle.anonymousMB}
	for i, r := range opts.rounds {
		profiled := func() {}
		if i == 0 && opts.profile != "" && system.profiled {
			profiled = startProfile(ctx, system.admin, opts.profile)
		}
		measured, err := measureRound(ctx, system, client, r)
		if err != nil {
			return systemResult{}, fmt.Errorf("%s, round %s: %w", system.name, r.name, err)
		}
		profiled()
		if measured.Errors > 0 {
			log.Print(system.output())
		}
		if err := sleep(ctx, opts.settle); err != nil {
			return systemResult{}, err
		}
		settled, err := system.usage()
		if err != nil {
			return systemResult{}, err
		}
		measured.SettledMB, measured.SettledAnonymousMB = settled.residentMB, settled.anonymousMB
		result.Rounds = append(result.Rounds, measured)
	}
	return result, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
