package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"text/tabwriter"
)

// acmeLoad is what ACME servers are loaded with.
type acmeLoad struct {
	// clients have an account each, and make one order after the other.
	clients, orders int
	// repeats is how often everything is measured.
	repeats int
}

// acmeResult is what one ACME server has done, with names that are proven by http-01
// or need no proof.
type acmeResult struct {
	System string `json:"system"`
	Proof  string `json:"proof"`
	roundResult
	IdleMB float64 `json:"idleMB"`
}

// The proofs.
const (
	proofHTTP = "http-01"
	proofNone = "preauthorized"
)

// measureACME measures orders from the first call to the certificate, with peers one
// after the other.
func measureACME(ctx context.Context, opts options, to *results) error {
	answers, err := startAnswers()
	if err != nil {
		return err
	}
	defer func() { _ = answers.stop() }()
	for range opts.acme.repeats {
		results, err := measureACMESystem(ctx, opts, func() (*acmeSystem, error) { return startACME(ctx, opts, answers) })
		if err != nil {
			return err
		}
		to.ACME = append(to.ACME, results...)
		for _, peer := range []string{stepCAPeer, pebblePeer} {
			if missing := missingPeers(opts.assets, peer); missing != "" {
				log.Printf("%s is not measured: %s", peer, missing)
				continue
			}
			results, err := measureACMESystem(ctx, opts, func() (*acmeSystem, error) { return startACMEPeer(ctx, opts, peer, answers) })
			if err != nil {
				return fmt.Errorf("%s: %w", peer, err)
			}
			to.ACME = append(to.ACME, results...)
		}
	}
	return nil
}

func measureACMESystem(ctx context.Context, opts options, start func() (*acmeSystem, error)) (all []acmeResult, err error) {
	s, err := start()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	idle, err := atRest(ctx, s.system, opts.settle)
	if err != nil {
		return nil, err
	}
	proofs := []string{proofHTTP}
	if s.external != nil {
		proofs = append(proofs, proofNone)
	}
	for i, proof := range proofs {
		accounts := make(chan *acmeAccount, opts.acme.clients)
		for range opts.acme.clients {
			var external *externalAccount
			if proof == proofNone {
				external = s.external
			}
			account, err := s.server.register(ctx, external)
			if err != nil {
				return nil, err
			}
			accounts <- account
		}
		profiled := func() {}
		if i == 0 && s.profiled && opts.profiles("acme") {
			profiled = startProfile(ctx, s.admin, opts.profile)
		}
		r, err := measureOrders(ctx, s.system, round{opts.acme.clients, opts.acme.orders}, accounts)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", proof, err)
		}
		profiled()
		if r.Errors > 0 {
			log.Print(s.output())
		}
		settled, err := atRest(ctx, s.system, opts.settle)
		if err != nil {
			return nil, err
		}
		r.SettledMB = settled.ResidentMB
		all = append(all, acmeResult{s.name, proof, r, idle.ResidentMB})
	}
	return all, nil
}

// measureOrders has accounts order certificates, each with a key that is made
// before.
func measureOrders(ctx context.Context, s *system, load round, accounts chan *acmeAccount) (roundResult, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return roundResult{}, err
	}
	measuring, err := startMeasuring(s)
	if err != nil {
		return roundResult{}, err
	}
	outcomes := obtainAll(ctx, load, func(name string, _ int) error {
		account := <-accounts
		defer func() { accounts <- account }()
		return account.obtain(ctx, name+".bench.example", key)
	})
	used, err := measuring.finish()
	if err != nil {
		return roundResult{}, err
	}
	return summarizeAll(load, outcomes, used), ctx.Err()
}

// summarizeAll is summarize with what was consumed.
func summarizeAll(load round, outcomes []outcome, used consumption) roundResult {
	r := summarize(load, outcomes, used.took)
	r.ServerCPUMilliseconds, r.ClientCPUMilliseconds = each(used.serverCPU, r.Certificates), each(used.clientCPU, r.Certificates)
	r.MemoryMB, r.PeakMB = used.memoryMB, used.peakMB
	return r
}

func writeACME(out io.Writer, all []acmeResult) error {
	if len(all) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "ACME orders\tproof\tclients\tcertificates\terrors\trate /s\tp50 ms\tp99 ms\tserver CPU ms\tclient CPU ms\tidle MB\tend MB\tsettled MB\t")
	for _, r := range all {
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%.0f\t%.1f\t%.0f\t%.2f\t%.2f\t%.0f\t%.0f\t%.0f\t\n", r.System, r.Proof, r.Requesters, r.Certificates, r.Errors,
			r.Rate, r.P50Milliseconds, r.P99Milliseconds, r.ServerCPUMilliseconds, r.ClientCPUMilliseconds, r.IdleMB, r.MemoryMB, r.SettledMB)
	}
	return table.Flush()
}

// acmeGoals are those of certplane beside its peers, as means of all repeats.
func acmeGoals(all []acmeResult) []goal {
	of := func(system, proof string, value func(roundResult) float64) float64 {
		var rounds []roundResult
		for _, r := range all {
			if r.System == system && r.Proof == proof {
				rounds = append(rounds, r.roundResult)
			}
		}
		if len(rounds) == 0 {
			return 0
		}
		return mean(rounds, value)
	}
	ours := of(threeStepSystem, proofHTTP, roundResult.rate)
	if ours == 0 {
		return nil
	}
	goals := []goal{
		{What: "ACME orders by http-01", Unit: "/s", Is: ours, Limit: 100, AtLeast: true},
		{What: "ACME orders by http-01: CPU", Unit: "ms", Is: of(threeStepSystem, proofHTTP, roundResult.cpu), Limit: 12},
		{What: "ACME orders without proofs", Unit: "/s", Is: of(threeStepSystem, proofNone, roundResult.rate), Limit: 200, AtLeast: true},
		{What: "ACME orders without proofs: CPU", Unit: "ms", Is: of(threeStepSystem, proofNone, roundResult.cpu)},
	}
	for _, beside := range []struct {
		peer string
		rate float64
	}{{stepCAPeer, 2}, {pebblePeer, 0.5}} {
		if theirs := of(beside.peer, proofHTTP, roundResult.rate); theirs > 0 {
			goals = append(goals,
				goal{What: "ACME orders by http-01: rate", Unit: "of " + beside.peer, Is: ours / theirs, Limit: beside.rate, AtLeast: true},
				goal{What: "ACME orders by http-01: CPU", Unit: "of " + beside.peer, Is: of(threeStepSystem, proofHTTP, roundResult.cpu) / of(beside.peer, proofHTTP, roundResult.cpu)},
			)
		}
	}
	return goals
}
