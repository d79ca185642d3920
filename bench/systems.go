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

func measureThreeSteps(ctx context.Context, opts options, to *results) error {
	return measureSystem(ctx, opts, to, startCertplane, (*waiting).obtain, nil)
}

func measureKubernetes(ctx context.Context, opts options, to *results) error {
	if to.Missing = missingPeers(opts.assets, kubernetesPeers...); to.Missing != "" {
		log.Printf("Kubernetes is not measured: %s", to.Missing)
		return nil
	}
	return measureSystem(ctx, opts, to, startKubernetes, (*waiting).obtain, nil)
}

// measureOneWrite measures certplane with a policy that has the create call
// answer with the certificate.
func measureOneWrite(ctx context.Context, opts options, to *results) error {
	start := func(ctx context.Context, opts options) (*system, error) {
		s, err := startCertplane(ctx, opts)
		if err == nil {
			s.name = oneWriteSystem
		}
		return s, err
	}
	return measureSystem(ctx, opts, to, start, (*waiting).obtainAtOnce, allowOneWrite)
}

// measureSystem starts a system, loads it, and stops it. prepare, if there is
// one, changes its settings once it runs.
func measureSystem(ctx context.Context, opts options, to *results,
	start func(context.Context, options) (*system, error), obtain obtain, prepare func(context.Context, *rest.Config) error,
) (err error) {
	s, err := start(ctx, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	client, err := newRequesterClient(ctx, s.admin)
	if err != nil {
		return fmt.Errorf("preparing the requesters: %w", err)
	}
	if prepare != nil {
		if err := prepare(ctx, s.admin); err != nil {
			return err
		}
	}
	idle, err := atRest(ctx, s, opts.settle)
	if err != nil {
		return err
	}
	result := systemResult{Name: s.name, ReadySeconds: s.startup.Seconds(), MemoryIdleMB: idle.ResidentMB, AnonymousIdleMB: idle.AnonymousMB}
	part := map[string]string{threeStepSystem: "three-step", oneWriteSystem: "one-write"}[s.name]
	for i, r := range opts.rounds {
		profiled := func() {}
		if i == 0 && s.profiled && opts.profiles(part) {
			profiled = startProfile(ctx, s.admin, opts.profile)
		}
		measured, err := measureRound(ctx, s, client, r, obtain)
		if err != nil {
			return fmt.Errorf("%d requesters: %w", r.requesters, err)
		}
		profiled()
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
