package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"k8s.io/client-go/rest"
)

// The systems that take requests to certificates.
const (
	threeStepSystem  = "certplane"
	oneWriteSystem   = "certplane, one write"
	kubernetesSystem = "kubernetes"
)

// requestSystem takes requests.
type requestSystem struct {
	name, part string
	start      func(context.Context, options) (*system, error)
	obtain     obtain
	// prepare changes settings once the system runs, unless it is nil.
	prepare func(context.Context, *rest.Config) error
}

func measureThreeSteps(ctx context.Context, opts options, to *results) error {
	return requestSystem{threeStepSystem, "three-step", startCertplane, (*waiting).obtain, nil}.measure(ctx, opts, to)
}

func measureKubernetes(ctx context.Context, opts options, to *results) error {
	if to.Missing = missingPeers(opts.assets, kubernetesPeers...); to.Missing != "" {
		log.Printf("Kubernetes is not measured: %s", to.Missing)
		return nil
	}
	return requestSystem{kubernetesSystem, "kubernetes", startKubernetes, (*waiting).obtain, nil}.measure(ctx, opts, to)
}

// measureOneWrite measures certplane with a policy that has the create call
// answer with the certificate.
func measureOneWrite(ctx context.Context, opts options, to *results) error {
	return requestSystem{oneWriteSystem, "one-write", startCertplane, (*waiting).obtainAtOnce, allowOneWrite}.measure(ctx, opts, to)
}

// measure starts the system, loads it, and stops it.
func (r requestSystem) measure(ctx context.Context, opts options, to *results) (err error) {
	s, err := r.start(ctx, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	client, err := newRequesterClient(ctx, s.admin)
	if err != nil {
		return fmt.Errorf("preparing the requesters: %w", err)
	}
	if r.prepare != nil {
		if err := r.prepare(ctx, s.admin); err != nil {
			return err
		}
	}
	idle, err := atRest(ctx, s, opts.settle)
	if err != nil {
		return err
	}
	result := systemResult{Name: r.name, ReadySeconds: s.startup.Seconds(), MemoryIdleMB: idle.ResidentMB, AnonymousIdleMB: idle.AnonymousMB}
	for i, load := range opts.rounds {
		finish := opts.startProfile(ctx, s, r.part, i)
		measured, err := measureRound(ctx, s, client, load, r.obtain)
		if err != nil {
			return fmt.Errorf("%d requesters: %w", load.requesters, err)
		}
		finish()
		if measured.Errors > 0 {
			log.Print(s.output())
		}
		settled, err := atRest(ctx, s, opts.settle)
		if err != nil {
			return err
		}
		measured.SettledMB, measured.SettledAnonymousMB = settled.ResidentMB, settled.AnonymousMB
		result.Rounds = append(result.Rounds, measured)
	}
	to.Systems = append(to.Systems, result)
	return nil
}
