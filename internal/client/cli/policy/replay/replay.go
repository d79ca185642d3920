// Package replay decides past requests by two sets of policies, and reports the decisions
// that differ.
package replay

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/policy/answer"
	"github.com/certplane/certplane/internal/client/cli/policy/facts"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/policy/certpolicy"
)

// Config selects the requests, and the policies that decide them.
type Config struct {
	// Logs are decision logs, Audits audit logs with a JSON object in each line.
	// Stdin is the one that is named manifest.Stdin.
	Logs, Audits []string
	Stdin        io.Reader
	// Dirs are files and folders with requests.
	Dirs []string
	// Stored reads the requests in API's store.
	Stored bool
	API    client.Reader

	// Old are the policies to compare with; nil for the past decisions.
	Old *certpolicy.Set
	New *certpolicy.Set
	// Today holds facts that were not recorded; nil if these are unknown.
	Today facts.Source
	// Stage selects decisions of a log; empty selects all.
	Stage v1alpha1.DecisionStage
	// OwnSigner treats the signers as certplane's. Decision logs record this already.
	OwnSigner bool
	// Verify verifies the signatures of requests.
	Verify bool

	// Each writes a line for each request to Stdout, and the report to Stderr.
	Each   bool
	FailOn FailOn
	// Output is json, yaml, or empty for text.
	Output         string
	Workers        int
	Now            func() time.Time
	Stdout, Stderr io.Writer

	needs *needsOf
}

// FailOn selects the differences that make the answer no.
type FailOn string

// The values of FailOn.
const (
	FailOnAny    FailOn = "any"
	FailOnLooser FailOn = "looser"
	FailOnNone   FailOn = "none"
)

// FailOns are all of them.
var FailOns = []string{string(FailOnAny), string(FailOnLooser), string(FailOnNone)}

// pair holds two decisions on a request.
type pair struct {
	Request v1alpha1.DecidedRequest  `json:"request"`
	Old     *v1alpha1.PolicyDecision `json:"old"`
	New     *v1alpha1.PolicyDecision `json:"new"`
	Differs bool                     `json:"differs"`
	// Today is true if today's facts were used.
	Today bool `json:"today,omitempty"`

	created time.Time
}

// outcome is the result for one raw request: a pair, an error, or nothing.
type outcome struct {
	where string
	pair  *pair
	err   error
	// line is the pair in JSON, with Each.
	line []byte
}

// batch holds raw requests that one worker decides.
type batch struct {
	raws []raw
	done chan []outcome
}

// batchSize balances the cost of hand-overs and the use of memory.
const batchSize = 32

// Run decides all requests and writes a report. Its error is an answer.No if decisions
// differ.
func Run(ctx context.Context, cfg Config) error {
	began := cfg.Now()
	cfg.needs = &needsOf{old: cfg.Old, new: cfg.New}
	lines := bufio.NewWriterSize(cfg.Stdout, 1<<16)
	t := newTally(cfg.Workers)
	if err := cfg.run(ctx, func(o outcome) error {
		t.add(o)
		if len(o.line) == 0 {
			return nil
		}
		_, err := lines.Write(o.line)
		return err
	}); err != nil {
		return err
	}
	if err := lines.Flush(); err != nil {
		return err
	}
	report := t.report(cfg.Now().Sub(began))
	if report.Summary.Requests+report.Summary.Unreadable+report.Summary.WithoutBody+report.Summary.WithoutOutcome == 0 {
		return errors.New("the sources contain no requests")
	}
	out := cfg.Stdout
	if cfg.Each {
		out = cfg.Stderr
	}
	if err := print.Found(out, cfg.Output, report, report.text); err != nil {
		return err
	}
	return cfg.verdict(report)
}

// run reads, decides with several workers, and calls take with each outcome in
// the order of the requests. Only a few batches are in memory at a time.
func (cfg *Config) run(ctx context.Context, take func(outcome) error) error {
	group, ctx := errgroup.WithContext(ctx)
	work, ordered := make(chan *batch), make(chan *batch, 2*cfg.Workers)
	group.Go(func() error {
		defer close(work)
		defer close(ordered)
		return cfg.read(ctx, work, ordered)
	})
	for range cfg.Workers {
		group.Go(func() error {
			for b := range work {
				b.done <- cfg.decideAll(ctx, b.raws)
			}
			return nil
		})
	}
	group.Go(func() error {
		for b := range ordered {
			for _, o := range <-b.done {
				if err := take(o); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return group.Wait()
}

// read puts requests into batches.
func (cfg *Config) read(ctx context.Context, work, ordered chan<- *batch) error {
	current := &batch{done: make(chan []outcome, 1)}
	send := func() error {
		for _, to := range []chan<- *batch{ordered, work} {
			select {
			case to <- current:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		current = &batch{done: make(chan []outcome, 1)}
		return nil
	}
	err := cfg.each(ctx, func(r raw) error {
		current.raws = append(current.raws, r)
		if len(current.raws) < batchSize {
			return nil
		}
		return send()
	})
	if err != nil || len(current.raws) == 0 {
		return err
	}
	return send()
}

func (cfg *Config) decideAll(ctx context.Context, raws []raw) []outcome {
	var all []outcome
	for _, r := range raws {
		o := outcome{where: r.where}
		p, err := r.decode(r.data)
		switch {
		case err != nil:
			o.err = err
		case p == nil || cfg.Stage != "" && p.recorded.Input.Stage != cfg.Stage:
			continue
		default:
			o.pair, o.err = cfg.decide(ctx, p)
		}
		if cfg.Each && o.pair != nil {
			o.line, o.err = json.Marshal(o.pair)
			o.line = append(o.line, '\n')
		}
		all = append(all, o)
	}
	return all
}

// errNoOutcome reports a request whose past decision is unknown.
var errNoOutcome = errors.New("the past decision is unknown")

// decide makes both decisions on a request.
func (cfg *Config) decide(ctx context.Context, p *past) (*pair, error) {
	if cfg.Verify {
		if err := p.verify(); err != nil {
			return nil, err
		}
	}
	if cfg.Old == nil && p.logged == nil {
		return nil, errNoOutcome
	}
	recorded := p.recorded
	needs := cfg.needs.of(&recorded.Input.Request)
	in, today := complete(ctx, recorded, needs, cfg.Today)
	in.Stage = v1alpha1.StageReplay
	p.count(ctx, &in, needs, cfg.Today)
	today = cfg.quotas(ctx, &in) || today
	if cfg.Today != nil && in.Certificate == nil && in.Prospective == nil {
		in.Request.Order = in.Facts.Order
		cert, own := cfg.Today.Prospective(ctx, &in.Request, in.Time)
		in.Prospective, today = cert, today || cert != nil
		if own {
			in.Facts.Signer = certpolicy.OwnSigner(true)
		}
	}
	d := &pair{Old: p.logged, New: cfg.New.Decide(in), Today: today, created: in.Time}
	if cfg.Old != nil {
		d.Old = cfg.Old.Decide(in)
	}
	d.Request, d.Differs = d.New.Request, d.Old.Outcome != d.New.Outcome
	return d, nil
}

func (cfg *Config) verdict(r Report) error {
	looser := 0
	for _, g := range r.Groups {
		if g.Looser {
			looser += g.Count
		}
	}
	switch {
	case cfg.FailOn == FailOnAny && r.Summary.Different > 0:
		return answer.No("%s", differ(r.Summary.Different))
	case cfg.FailOn == FailOnLooser && looser > 0:
		return answer.No("%s looser", are(looser))
	}
	return nil
}
