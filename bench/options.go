package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
)

// options are the values of the flags.
type options struct {
	certplane string // path of the program
	before    string // path of an older certplane, or empty
	assets    string // folder of the peers' programs; empty: they are not measured
	json      string // file to write, or empty
	profile   string // folder for profiles of certplane, or empty
	parts     partNames

	rounds    rounds
	podRounds []podRound
	// certificateRounds are of Certificates of cert-manager.io.
	certificateRounds []certificateRound
	// memoryRequests are the certificates of the part memory.
	memoryRequests int
	// starts are how often a server starts on each data directory.
	starts int
	// agentPods are the pods of the one host.
	agentPods int
	acme      acmeLoad
	floods    floodLoad
	// signatures are the certificates of the part signing.
	signatures    int
	secrets       secretLoad
	inventory     inventoryLoad
	console       consoleLoad
	policies      policyLoad
	settle, limit time.Duration
	// calm is how long a server idles after the load of the part memory.
	calm time.Duration
}

// profiles reports whether a part takes the profiles: the first one that can.
func (o options) profiles(part string) bool {
	if o.profile == "" {
		return false
	}
	first := slices.IndexFunc(o.parts, func(name string) bool { return slices.Contains(profiledParts, name) })
	return first >= 0 && o.parts[first] == part
}

// profiledParts are the parts whose first round can be profiled.
var profiledParts = []string{"three-step", "one-write", "pods", "certificates", "acme", "policies", "console"}

func parseFlags() options {
	var podRequests, certificates int
	opts := options{rounds: rounds{{64, 12000}, {16, 3000}, {256, 5120}}, policies: policyLoad{requesters: 64, times: 4}}
	for _, p := range parts {
		opts.parts = append(opts.parts, p.name)
	}
	flag.Var(&opts.parts, "parts", "What is measured; a name with '-' in front leaves a part out of all:\n"+describeParts())
	flag.Var(&opts.rounds, "rounds", "How many requesters obtain how many certificates together, as REQUESTERS:CERTIFICATES,..., one after the other on one server.")
	flag.IntVar(&podRequests, "pod-requests", 10000, "How many certificates of pods are requested at once: in three steps, in one write, and while the server is killed.")
	flag.IntVar(&certificates, "certificates", 1000, "How many Certificates of cert-manager.io are created at once, once with ECDSA and once with RSA keys.")
	flag.IntVar(&opts.memoryRequests, "memory-requests", 12000, "How many certificates are obtained before the memory that is left is read.")
	flag.IntVar(&opts.starts, "starts", 7, "How often a server starts on each existing data directory.")
	flag.IntVar(&opts.agentPods, "agent-pods", 1000, "How many pods the one host has.")
	flag.IntVar(&opts.acme.clients, "acme-clients", 16, "How many ACME clients order certificates, each with an account of its own.")
	flag.IntVar(&opts.acme.orders, "acme-orders", 2000, "How many certificates they order together in each round.")
	flag.IntVar(&opts.acme.repeats, "acme-repeats", 1, "How often each ACME server is measured.")
	flag.IntVar(&opts.floods.calls, "flood-calls", 1000, "How many calls of the API are measured before and during each flood of the ACME server.")
	flag.IntVar(&opts.floods.perSecond, "flood-calls-per-second", 50, "How many of them are made in a second.")
	flag.IntVar(&opts.signatures, "signatures", 5000, "How many certificates step-ca, and a loop, sign.")
	flag.IntVar(&opts.secrets.secrets, "secrets", 30000, "How many unrelated Secrets are created.")
	flag.IntVar(&opts.secrets.bytes, "secret-bytes", 4096, "How much each of them holds.")
	flag.IntVar(&opts.inventory.records, "records", 1000000, "How many records of issued certificates there are.")
	flag.IntVar(&opts.console.requests, "waiting", 10000, "How many requests wait while pages of the console are read.")
	flag.IntVar(&opts.console.reads, "reads", 100, "How often each page of the console is read.")
	flag.IntVar(&opts.inventory.searches, "searches", 300, "How often each search for records is made.")
	flag.IntVar(&opts.policies.requests, "policy-requests", 3000, "How many certificates are obtained in each of several rounds without and with policies.")
	flag.IntVar(&opts.policies.policies, "policies", 20, "How many policies there are in these rounds; half of them are about the requests.")
	flag.DurationVar(&opts.settle, "settle", 10*time.Second, "How long a server idles before its idle memory is read, and after each round.")
	flag.DurationVar(&opts.calm, "calm", time.Minute, "How long a server idles after -memory-requests.")
	flag.DurationVar(&opts.limit, "limit", 40*time.Minute, "When to give up.")
	flag.StringVar(&opts.assets, "assets", os.Getenv("KUBEBUILDER_ASSETS"), "Folder with the peers' programs, which 'make bench-peers' builds; empty measures certplane alone. Default: $KUBEBUILDER_ASSETS.")
	flag.StringVar(&opts.before, "before", "", "An older certplane, which issues Certificates beside this one.")
	flag.StringVar(&opts.json, "json", "", "File for the results as JSON; '-' prints JSON instead of a table.")
	flag.StringVar(&opts.profile, "profile", "", "Folder for CPU and heap profiles of certplane during the first round of the first part that is one of "+strings.Join(profiledParts, ", ")+".")
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
	opts.podRounds = []podRound{
		{name: "at-once", requests: podRequests},
		{name: "one-write", requests: podRequests, oneWrite: true},
		{name: "steady", requests: min(podRequests, 30*podsPerSecond), perSecond: podsPerSecond},
		{name: "killed", requests: podRequests, kill: true},
	}
	opts.certificateRounds = []certificateRound{
		{name: "ecdsa", certificates: certificates, algorithm: cmv1.ECDSAKeyAlgorithm, peers: true},
		{name: "rsa", certificates: certificates, algorithm: cmv1.RSAKeyAlgorithm},
	}
	return opts
}

// podsPerSecond is the rate of the round that measures how soon pods get their
// certificates.
const podsPerSecond = 200

// partNames are names of parts, in the order in which they run.
type partNames []string

func (n *partNames) String() string { return strings.Join(*n, ",") }

// Set chooses parts: those that are named, or all but those with '-'.
func (n *partNames) Set(text string) error {
	named := strings.Split(text, ",")
	without := strings.HasPrefix(named[0], "-")
	chosen := map[string]bool{}
	for _, name := range named {
		known := strings.TrimPrefix(name, "-")
		if !slices.ContainsFunc(parts, func(p part) bool { return p.name == known }) {
			return fmt.Errorf("there is no part %q", known)
		}
		if (known != name) != without {
			return errors.New("name parts to measure, or parts to leave out, not both")
		}
		chosen[known] = true
	}
	*n = nil
	for _, p := range parts {
		if chosen[p.name] != without {
			*n = append(*n, p.name)
		}
	}
	return nil
}

func describeParts() string {
	var text strings.Builder
	for _, p := range parts {
		fmt.Fprintf(&text, "%s: %s\n", p.name, p.what)
	}
	return text.String()
}

// round is one load: a number of requesters together obtain a number of
// certificates.
type round struct{ requesters, requests int }

type rounds []round

func (r *rounds) String() string {
	var all []string
	for _, one := range *r {
		all = append(all, fmt.Sprintf("%d:%d", one.requesters, one.requests))
	}
	return strings.Join(all, ",")
}

// Set reads REQUESTERS:CERTIFICATES,...
func (r *rounds) Set(text string) error {
	*r = nil
	for one := range strings.SplitSeq(text, ",") {
		requesters, requests, _ := strings.Cut(one, ":")
		n, err1 := strconv.Atoi(requesters)
		m, err2 := strconv.Atoi(requests)
		if err1 != nil || err2 != nil || n < 1 || m < 1 {
			return fmt.Errorf("%q is not REQUESTERS:CERTIFICATES", one)
		}
		*r = append(*r, round{n, m})
	}
	return nil
}
