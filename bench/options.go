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
	before    string // path of an older certplane that is also measured, or empty
	guard     int    // rounds that are compared with before, or 0
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
	revocation    revocationLoad
	growth        growthLoad
	trust         trustLoad
	settle, limit time.Duration
	// calm is how long a server idles after the load of the part memory.
	calm time.Duration
}

func parseFlags() options {
	var podRequests, certificates, rsaCertificates int
	opts := options{rounds: rounds{{64, 12000}, {16, 3000}, {256, 5120}, {1024, 5120}}, policies: policyLoad{requesters: 64, times: 4}}
	for _, p := range parts {
		opts.parts = append(opts.parts, p.name)
	}
	flag.Var(&opts.parts, "parts", "Parts to measure; a name with '-' in front removes a part from all:\n"+describeParts())
	flag.Var(&opts.rounds, "rounds", "How many requesters obtain how many certificates together, as REQUESTERS:CERTIFICATES,..., one after the other on one server.")
	flag.IntVar(&podRequests, "pod-requests", 10000, "How many certificates of pods are requested at once: in three steps, in one write, and while the server is killed.")
	flag.IntVar(&certificates, "certificates", 1000, "How many Certificates of cert-manager.io are created at once, with ECDSA keys; 0 leaves the round out.")
	flag.IntVar(&rsaCertificates, "rsa-certificates", 1000, "How many are then created with RSA keys; 0 leaves the round out.")
	flag.IntVar(&opts.memoryRequests, "memory-requests", 12000, "How many certificates are obtained before the memory that is left is read.")
	flag.IntVar(&opts.starts, "starts", 7, "How often a server starts on each existing data directory.")
	flag.IntVar(&opts.agentPods, "agent-pods", 1000, "How many pods the one host has.")
	flag.IntVar(&opts.acme.clients, "acme-clients", 16, "Number of ACME clients that order certificates, each with a separate account.")
	flag.IntVar(&opts.acme.orders, "acme-orders", 2000, "How many certificates they order together in each round.")
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
	flag.IntVar(&opts.revocation.watches, "revoked-watches", 1000, "How many watches, each with a certificate of its own, are cut by one revocation in the part revocation.")
	flag.IntVar(&opts.revocation.single, "revocations", 600, "How many certificates are revoked one by one there, in each of two rounds.")
	flag.IntVar(&opts.revocation.reviews, "reviews", 10000, "How many reviews its webhook answers there, 1,000 a second.")
	flag.IntVar(&opts.revocation.records, "revocation-records", 1000000, "How many records there are there when one selection revokes half of them.")
	flag.IntVar(&opts.trust.namespaces, "bundle-namespaces", 5000, "How many namespaces have a target of one Bundle in the part trust; 0 leaves Bundles out.")
	flag.IntVar(&opts.trust.roots, "bundle-roots", 140, "How many roots the Bundle has.")
	flag.IntVar(&opts.trust.trustBundles, "trust-bundles", 2000, "How many TrustBundles there are in the part trust; 0 leaves them out.")
	flag.StringVar(&opts.growth.kinds, "growth-kinds", grownNames(), "The kinds of objects whose number grows in the part growth.")
	flag.StringVar(&opts.growth.sizes, "growth", "500,5000", "How many of them are stored at each measurement.")
	flag.DurationVar(&opts.settle, "settle", 10*time.Second, "How long a server idles before its idle memory is read, and after each round.")
	flag.DurationVar(&opts.calm, "calm", time.Minute, "How long a server idles after -memory-requests.")
	flag.DurationVar(&opts.limit, "limit", 40*time.Minute, "When to give up.")
	flag.StringVar(&opts.assets, "assets", os.Getenv("KUBEBUILDER_ASSETS"), "Folder with the peers' programs, which 'make bench-peers' builds; empty measures certplane alone. Default: $KUBEBUILDER_ASSETS.")
	flag.StringVar(&opts.before, "before", "", "An older certplane, which is measured in addition, and compared.")
	flag.IntVar(&opts.guard, "guard", 0, "Measure this often, the older certplane first every other time; print only the comparison; and fail if the CPU for any item is more than 10 % higher than -before's in the median.")
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
	if opts.guard > 0 && opts.before == "" {
		fmt.Fprintln(flag.CommandLine.Output(), "-guard needs -before")
		os.Exit(2)
	}
	opts.certplane = flag.Arg(0)
	opts.podRounds = []podRound{
		{name: "at-once", requests: podRequests},
		{name: "one-write", requests: podRequests, oneWrite: true},
		{name: "steady", requests: min(podRequests, 30*podsPerSecond), perSecond: podsPerSecond},
		{name: killedRound, requests: podRequests, kill: true},
	}
	opts.certificateRounds = []certificateRound{
		{name: "ecdsa", certificates: certificates, algorithm: cmv1.ECDSAKeyAlgorithm},
		{name: "rsa", certificates: rsaCertificates, algorithm: cmv1.RSAKeyAlgorithm},
	}
	return opts
}

// killedRound is the name of the round in which the server is killed.
const killedRound = "killed"

// podsPerSecond is the rate of the round that measures how soon pods get their
// certificates.
const podsPerSecond = 500

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
			return fmt.Errorf("unknown part %q", known)
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
