// Package check decides requests in files by policies, without creating them.
package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/policy/answer"
	"github.com/certplane/certplane/internal/client/cli/policy/decision"
	"github.com/certplane/certplane/internal/client/cli/policy/facts"
	"github.com/certplane/certplane/internal/client/cli/policy/manifest"
	"github.com/certplane/certplane/internal/client/cli/policy/requests"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/decisionlog"
)

// Config selects the requests, the policies and the facts.
type Config struct {
	// Files are the files with requests; manifest.Stdin is Stdin.
	Files []string
	Stdin io.Reader
	// Options are details of requests that the files do not contain.
	Options requests.Options
	// OwnSigner treats the signers as certplane's, which enforce the lifetimes of
	// policies.
	OwnSigner bool
	// Set holds the policies, Facts the objects that they can read.
	Set   *certpolicy.Set
	Facts facts.Source
	Now   time.Time
	// Output is json, yaml, or empty for text.
	Output string
	Stdout io.Writer
}

// checked is a request with its decision.
type checked struct {
	file     string
	asked    *requests.Asked
	decision *v1alpha1.PolicyDecision
}

// Run decides the requests and writes the decisions. Its error is an answer.No if a
// request is denied.
func Run(ctx context.Context, cfg Config) error {
	all, err := read(cfg)
	if err != nil {
		return err
	}
	for i := range all {
		all[i].decision = cfg.decide(ctx, all[i].asked)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err := write(cfg, all); err != nil {
		return err
	}
	return verdict(all)
}

// read reads all files before the first decision is written.
func read(cfg Config) ([]checked, error) {
	var all []checked
	for _, file := range cfg.Files {
		data, err := manifest.Open(file, cfg.Stdin)
		if err != nil {
			return nil, err
		}
		requests, err := cfg.Options.Read(file, data)
		if err != nil {
			return nil, err
		}
		for _, one := range requests {
			all = append(all, checked{file: file, asked: one})
		}
	}
	return all, nil
}

func (cfg *Config) decide(ctx context.Context, asked *requests.Asked) *v1alpha1.PolicyDecision {
	in := certpolicy.Input{Stage: v1alpha1.StageCheck, Request: asked.Request, Time: cfg.Now}
	if in.Request.Created.IsZero() {
		in.Request.Created = cfg.Now
	}
	needs := cfg.Set.Needs(&in.Request)
	needs.Signer = false // the user names the signer
	in.Facts = cfg.Facts.Of(ctx, &in.Request, asked.Pod, needs)
	in.Facts.Signer = certpolicy.OwnSigner(cfg.OwnSigner)
	asked.SetOrigin(&in.Facts)
	in.Facts.Quotas = cfg.Facts.Quotas(ctx, cfg.Set.Quotas(&in.Request), in.Request.UID, cfg.Now)
	votes, known := cfg.Facts.Votes(ctx, &in.Request, policies.ConditionsOf(asked.Object), needs)
	in.Votes, in.SealsUnknown = votes, !known
	cert, own := cfg.Facts.Prospective(ctx, &in.Request, cfg.Now)
	in.Prospective = cert
	if own {
		in.Facts.Signer = certpolicy.OwnSigner(true)
	}
	d := cfg.Set.Decide(in)
	d.Facts = decisionlog.Facts(&in, false)
	return d
}

func write(cfg Config, all []checked) error {
	for i, one := range all {
		var text string
		switch cfg.Output {
		case "json":
			data, err := json.MarshalIndent(one.decision, "", "  ")
			if err != nil {
				return fmt.Errorf("encoding as JSON: %w", err)
			}
			text = string(data) + "\n"
		case "yaml":
			data, err := yaml.Marshal(one.decision)
			if err != nil {
				return fmt.Errorf("encoding as YAML: %w", err)
			}
			text = string(data)
			if i > 0 {
				text = "---\n" + text
			}
		default:
			text = decision.Text(one.decision)
			if len(all) > 1 {
				text = print.Printable(one.title()) + ": " + text
			}
		}
		if _, err := io.WriteString(cfg.Stdout, text); err != nil {
			return err
		}
	}
	return nil
}

// title names the request of a decision.
func (c *checked) title() string {
	if c.file == manifest.Stdin {
		return c.asked.Name()
	}
	return c.file + " " + c.asked.Name()
}

// verdict returns the error that makes the exit code.
func verdict(all []checked) error {
	denied, waiting := 0, 0
	var facts []string
	for _, one := range all {
		switch one.decision.Outcome {
		case v1alpha1.OutcomeDeny:
			denied++
		case v1alpha1.OutcomeWait:
			waiting++
			for _, open := range one.decision.Open {
				facts = append(facts, open.Fact)
			}
		}
	}
	switch {
	case denied > 0:
		return answer.No("the policies deny %s", ofRequests(denied, len(all)))
	case waiting > 0 && len(facts) > 0:
		return exit.WithNext(fmt.Errorf("the decision of the policies on %s is unknown", ofRequests(waiting, len(all))),
			"To supply missing facts, give objects with --facts FILE, and the rights of the requester as SubjectAccessReviews with their status.")
	case waiting > 0:
		return errors.New("the decision of the policies is unknown for " + ofRequests(waiting, len(all)))
	}
	return nil
}

func ofRequests(some, all int) string {
	if all == 1 {
		return "the request"
	}
	return fmt.Sprintf("%d of %d requests", some, all)
}
