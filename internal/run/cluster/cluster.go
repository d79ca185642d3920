// Package cluster is the composition root of "certplane controllers": the
// certificate controllers for any Kubernetes API.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/certplane/certplane/internal/frontend"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/process/buildinfo"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/controllermanager"
)

// Run runs the chosen controllers until ctx ends or they cannot work as configured. The
// end of ctx is not an error. The process must exit when Run returns: a controller
// that does not stop in time may still be at work, without the lease.
func Run(ctx context.Context, cfg Config) error {
	err := run(ctx, cfg)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

func run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	own, err := connect(cfg.ClientConnection)
	if err != nil {
		return err
	}
	work, err := plan(cfg, own)
	if err != nil {
		return err
	}
	probes := &probes{}
	stop, err := probes.serve(ctx, cfg.Health.BindAddress)
	if err != nil {
		return err
	}
	defer stop()
	klog.InfoS("Starting the certificate controllers", "version", buildinfo.Read().Version, "api", own.Host, "controllers", work.Settings.Controllers)
	// Controllers that end sooner than after LastPause when they have never worked cannot
	// work as configured, and end the process.
	worked := false
	for pause := worker.FirstPause; ; pause = min(2*pause, worker.LastPause) {
		err := waitForAPI(ctx, own)
		began := time.Now()
		if err == nil {
			err = runOnce(ctx, cfg, own, work, probes)
		}
		lost, long := controllermanager.IsLostLease(err), time.Since(began) > worker.LastPause
		if worked = worked || lost || long; ctx.Err() != nil || !worked {
			return err
		}
		if long {
			pause = worker.FirstPause
		}
		if lost {
			klog.FromContext(ctx).Info("The lease of the controllers is lost: another process may run them now. Waiting for it",
				"lease", cfg.ownLease(), "reason", err.Error())
		} else {
			klog.FromContext(ctx).Error(err, "The controllers have ended; starting them again", "in", pause)
		}
		if !worker.Sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}

// runOnce runs the chosen controllers and the front ends until ctx ends, they fail or the
// lease is lost: all of them have ended then.
func runOnce(ctx context.Context, cfg Config, own *rest.Config, work controllermanager.Config, probes *probes) error {
	as, err := identities(ctx, cfg, own)
	if err != nil {
		return err
	}
	process, err := newProcess(cfg, own, as)
	if err != nil {
		return err
	}
	if work.Responders, err = controllermanager.NewResponders(cfg.ACME, process.Metrics); err != nil {
		return err
	}
	if work.Policies, err = followPolicies(cfg, process, work); err != nil {
		return err
	}
	defer work.Policies.Close()
	acme, err := acmeListener(cfg, &work)
	if err != nil {
		return err
	}
	revocations, err := followRevocations(process, cfg)
	if err != nil {
		return err
	}
	switch {
	case revocations.lists != nil:
		work.Revoked, work.Lists = revocations.lists, revocations.lists
	case revocations.follower != nil:
		work.Revoked = revocations.follower
	}
	if work.Interlocks, err = controllermanager.NewInterlocks(ctx, process, cfg.LeaderElection.AlsoHold, own, cfg.ownLease()); err != nil {
		return err
	}
	if work.Recorder, err = work.NewRecorder(process, cfg.Inventory, controllermanager.LeaseName); err != nil {
		return err
	}
	if work.Recorder != nil {
		work.RecordOwn = work.Recorder.RecordOwn
	}
	if err := controllermanager.Add(process, work); err != nil {
		return err
	}
	all, err := frontEnds(cfg, own, process, work, revocations, acme)
	if err != nil {
		return err
	}
	stop, err := probes.report(process.Manager, all)
	if err != nil {
		return err
	}
	defer stop()
	return frontend.Run(ctx, all, process.Manager.Start)
}

// stopTimeout is how long controllers may take to finish their work. Pods are killed after
// 30 s.
const stopTimeout = 20 * time.Second

// newProcess returns the process that runs the controllers, under the lease if one is
// configured.
func newProcess(cfg Config, own *rest.Config, as func(string) (*rest.Config, error)) (controllermanager.Process, error) {
	options := controllermanager.Options{
		Namespace: cfg.Namespace, As: as, Metrics: metrics.Registry, StopTimeout: ptr.To(stopTimeout),
		Announcement: "The controllers work here from now on",
	}
	if election := cfg.LeaderElection; election.LeaderElect {
		options.Lease = &controllermanager.Lease{Namespace: cfg.LeaseNamespace(), Name: election.ResourceName, Times: election.LeaseTimes, API: own}
	}
	return controllermanager.NewProcess(options)
}

// followPolicies returns the policies of the API, which the process follows with
// and without the lease. Without the webhook, which seals the approvals of people,
// there are none.
func followPolicies(cfg Config, process controllermanager.Process, work controllermanager.Config) (*policies.Policies, error) {
	var seals *policies.Seals
	if cfg.AdmitsPolicies() {
		seals = &policies.Seals{}
	}
	deciders, err := work.OpenPolicies(controllermanager.PolicyReader{
		API: process.Reader, Remote: true, Namespace: process.Namespace, Seals: seals, Metrics: process.Metrics,
	})
	if err != nil {
		return nil, err
	}
	return deciders, process.Manager.Add(deciders)
}

// plan returns the configuration of the controllers.
func plan(cfg Config, own *rest.Config) (controllermanager.Config, error) {
	work := cfg.work()
	work.AdmitsTrustBundles = cfg.AdmitsTrustBundles()
	var err error
	if work.RootCA, err = rootCA(own); err != nil {
		return work, err
	}
	switch err := cfg.CheckLeases(); {
	case err != nil:
		return work, err
	case work.Chooses(rights.Publish) && work.RootCA == nil && cfg.Publishing.RootCAFile == "":
		return work, fmt.Errorf("controllers: %s has nothing to publish: set publishing.rootCAFile to the CA of the API server's certificate", rights.Publish.Name)
	case cfg.LacksCA():
		if slices.Contains(cfg.Controllers, rights.Sign.Name) {
			return work, fmt.Errorf("controllers: %s is selected by name, but no CA is configured: set signing.ca, or --cluster-signing-cert-file "+
				"and --cluster-signing-key-file", rights.Sign.Name)
		}
		klog.InfoS("The sign controller is off: no CA is configured for any signer. Set signing.ca, or --cluster-signing-cert-file and --cluster-signing-key-file")
	}
	return work, nil
}
