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

// measureACME measures orders from the first call to the certificate.
func measureACME(ctx context.Context, opts options, to *results) error {
	return measureACMEServer(ctx, opts, to, startACME)
}

// measureACMEPeers measures the same orders at peers, one after the other.
func measureACMEPeers(ctx context.Context, opts options, to *results) error {
	for _, peer := range []string{stepCAPeer, pebblePeer} {
		if missing := missingPeers(opts.assets, peer); missing != "" {
			log.Printf("%s is not measured: %s", peer, missing)
			continue
		}
		err := measureACMEServer(ctx, opts, to, func(ctx context.Context, opts options, answers *challengeAnswers) (*acmeSystem, error) {
			return startACMEPeer(ctx, opts, peer, answers)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", peer, err)
		}
	}
	return nil
}

func measureACMEServer(ctx context.Context, opts options, to *results,
	start func(context.Context, options, *challengeAnswers) (*acmeSystem, error),
) (err error) {
	answers, err := startAnswers()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, answers.stop()) }()
	s, err := start(ctx, opts, answers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	idle, err := atRest(ctx, s.system, opts.settle)
	if err != nil {
		return err
	}
	proofs := []string{proofHTTP}
	if s.external != nil {
		proofs = append(proofs, proofNone)
	}
	for i, proof := range proofs {
		accounts, err := s.accounts(ctx, proof, opts.acme.clients)
		if err != nil {
			return err
		}
		finish := opts.startProfile(ctx, s.system, "acme", i)
		r, err := measureOrders(ctx, s.system, round{opts.acme.clients, opts.acme.orders}, accounts)
		if err != nil {
			return fmt.Errorf("%s: %w", proof, err)
		}
		finish()
		if r.Errors > 0 {
			log.Print(s.output())
		}
		settled, err := atRest(ctx, s.system, opts.settle)
		if err != nil {
			return err
		}
		r.SettledMB = settled.ResidentMB
		to.ACME = append(to.ACME, acmeResult{s.name, proof, r, idle.ResidentMB})
	}
	return nil
}

// accounts registers accounts whose names are proven in one way.
func (s *acmeSystem) accounts(ctx context.Context, proof string, n int) (chan *acmeAccount, error) {
	accounts := make(chan *acmeAccount, n)
	for range n {
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
	return accounts, nil
}

// measureOrders has accounts order certificates, each with a key that is made
// before.
func measureOrders(ctx context.Context, s *system, load round, accounts chan *acmeAccount) (roundResult, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return roundResult{}, err
	}
	return s.measureRound(ctx, load, func(name string, _ int) error {
		account := <-accounts
		defer func() { accounts <- account }()
		return account.obtain(ctx, name+".bench.example", key)
	})
}

func writeACME(out io.Writer, all []acmeResult) error {
	if len(all) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "ACME orders\tproof\tclients\tcertificates\terrors\trate /s\tp50 ms\tp99 ms\t"+costColumns+"idle MB\tsettled MB\t")
	for _, r := range all {
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%.0f\t%.1f\t%.0f\t%s%.0f\t%.0f\t\n", r.System, r.Proof, r.Requesters, r.Certificates, r.Errors,
			r.Rate, r.P50Milliseconds, r.P99Milliseconds, r.columns(), r.IdleMB, r.SettledMB)
	}
	return table.Flush()
}

// acmeGoals are the goals of certplane compared with its peers.
func acmeGoals(all []acmeResult) []goal {
	by := map[[2]string]roundResult{}
	for _, r := range all {
		by[[2]string{r.System, r.Proof}] = r.roundResult
	}
	proven, unproven := by[[2]string{threeStepSystem, proofHTTP}], by[[2]string{threeStepSystem, proofNone}]
	if proven.Rate == 0 {
		return nil
	}
	goals := []goal{
		{What: "ACME orders by http-01", Unit: "/s", Is: proven.Rate, Limit: 100, AtLeast: true},
		{What: "ACME orders by http-01: CPU", Unit: "ms", Is: proven.ServerCPUMilliseconds, Limit: 12},
		{What: "ACME orders without proofs", Unit: "/s", Is: unproven.Rate, Limit: 200, AtLeast: true},
		{What: "ACME orders without proofs: CPU", Unit: "ms", Is: unproven.ServerCPUMilliseconds},
	}
	for _, beside := range []struct {
		peer      string
		rate, cpu float64
	}{{stepCAPeer, 1.2, 0.9}, {pebblePeer, 0.5, 0}} {
		if theirs := by[[2]string{beside.peer, proofHTTP}]; theirs.Rate > 0 {
			goals = append(goals,
				goal{What: "ACME orders by http-01: rate", Unit: "of " + beside.peer, Is: proven.Rate / theirs.Rate, Limit: beside.rate, AtLeast: true},
				goal{What: "ACME orders by http-01: CPU", Unit: "of " + beside.peer, Is: proven.ServerCPUMilliseconds / theirs.ServerCPUMilliseconds, Limit: beside.cpu},
			)
		}
	}
	return goals
}
