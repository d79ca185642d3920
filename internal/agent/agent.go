// Package agent does kubelet's part in the certificates of pods on a host
// without a kubelet. It registers the host as a node and its manifests as pods,
// and keeps the files of their projected volumes fresh.
package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/agent/contact"
	"github.com/certplane/certplane/internal/agent/hostcert"
	"github.com/certplane/certplane/internal/agent/identity"
	"github.com/certplane/certplane/internal/agent/manifests"
	"github.com/certplane/certplane/internal/agent/node"
	"github.com/certplane/certplane/internal/agent/podsync"
	"github.com/certplane/certplane/internal/agent/records"
	"github.com/certplane/certplane/internal/agent/status"
	"github.com/certplane/certplane/internal/process/backoff"
)

// poll is the interval at which the folder of manifests is read.
const poll = 2 * time.Second

// Run runs the agent until ctx ends. Each value received from again ends the
// waits after refusals, so that the agent retries at once. The volumes use the
// time of clock. Run calls ready once, when the host has an identity and the agent
// begins to keep its files.
func Run(ctx context.Context, cfg Config, clock clock.WithTicker, again <-chan struct{}, ready func()) error {
	var a *agent
	told := false
	err := patiently(ctx, isFull, func(ctx context.Context) (err error) {
		a, err = open(ctx, cfg, clock, false)
		if isFull(err) && !told {
			told = true
			klog.FromContext(ctx).Error(err, "Waiting for space on the disk")
		}
		return err
	})
	if err != nil {
		return err
	}
	defer a.stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended, err := a.serve(ctx)
	if err == nil {
		waits := false // an agent that waits for a file does not end because half of it is there
		err = patiently(ctx, func(err error) bool {
			waits = waits || passes(err)
			return waits
		}, a.tryJoin)
	}
	if err != nil {
		return a.failed(err)
	}
	var group wait.Group
	defer group.Wait()
	defer cancel()
	group.StartWithContext(ctx, a.node.Run)
	group.StartWithContext(ctx, a.keeper.Run)
	group.StartWithContext(ctx, func(ctx context.Context) {
		wait.UntilWithContext(ctx, func(context.Context) { a.read() }, poll)
	})
	ready()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return err
		case <-again:
			a.read()
			a.keeper.Retry()
		}
	}
}

// Once returns when all files of all manifests exist. If ctx ends first, the error names
// what is missing.
func Once(ctx context.Context, cfg Config, clock clock.WithTicker) error {
	a, err := open(ctx, cfg, clock, true)
	if err != nil {
		return err
	}
	defer a.stop()
	pods, err := cfg.pods()
	if err == nil {
		err = a.join(ctx)
	}
	if err != nil {
		return a.failed(err)
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var group wait.Group
	defer group.Wait()
	defer cancel()
	group.StartWithContext(run, a.keeper.Run)
	a.keeper.Set(pods, false)
	ready := func(context.Context) (bool, error) { return len(missing(a.board.Host(), pods)) == 0, nil }
	if wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, ready) == nil {
		return nil
	}
	a.observe(run)
	wrong := missing(a.board.Host(), pods)
	if problem := a.board.Host().ServerProblem(); problem != "" {
		wrong = append(wrong, problem)
	}
	return errors.New("some files are missing:\n  " + strings.Join(wrong, "\n  "))
}

// missing returns, for each pod without all of its files, what it lacks.
func missing(host status.Host, pods []manifests.Pod) []string {
	told := map[string]status.Pod{}
	for _, pod := range host.Pods {
		told[pod.Namespace+"/"+pod.Name] = pod
	}
	var all []string
	for _, pod := range pods {
		known, seen := told[pod.Key()]
		switch {
		case !seen:
			all = append(all, pod.Key()+": not processed before the time limit")
		case !known.Ready():
			all = append(all, pod.Key()+": "+known.Missing())
		}
	}
	return all
}

// agent is a running agent.
type agent struct {
	cfg      Config
	clock    clock.WithTicker
	board    *status.Board
	contact  *contact.Tracker
	registry *prometheus.Registry
	metrics  *podsync.Metrics
	records  *records.Store
	closers  []func()

	// The next two are set when the agent has joined.
	node   *node.Node
	keeper *podsync.Keeper

	mu       sync.Mutex
	identity *identity.Identity        // nil before the agent has one
	wanted   []manifests.Pod           // as last read
	logged   map[string]*loggedProblem // by the keys of problems
}

func (a *agent) stop() {
	for i := len(a.closers) - 1; i >= 0; i-- {
		a.closers[i]()
	}
}

// failed records in the status why the agent does not start.
func (a *agent) failed(err error) error {
	a.board.Start(err.Error())
	return err
}

// startPause is how long to wait before the start is tried again.
var startPause = backoff.Backoff{First: 100 * time.Millisecond, Most: 15 * time.Second}

// patiently calls try until it succeeds, fails for a reason that does not pass, or ctx ends.
func patiently(ctx context.Context, passes func(error) bool, try func(context.Context) error) error {
	for failures := 1; ; failures++ {
		err := try(ctx)
		if err == nil || ctx.Err() != nil || !passes(err) {
			return err
		}
		timer := time.NewTimer(startPause.After(failures))
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
	}
}

// tryJoin joins, and records in the status why it cannot.
func (a *agent) tryJoin(ctx context.Context) error {
	if err := a.join(ctx); err != nil {
		return a.failed(err)
	}
	return nil
}

// passes reports whether a startup error can pass without a change of the configuration.
// All other errors end the agent.
func passes(err error) bool { return identity.IsPassing(err) || isFull(err) }

// isFull reports whether the host has no space for files.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// open locks the agent's folder and begins to report the agent's status.
func open(ctx context.Context, cfg Config, clk clock.WithTicker, once bool) (*agent, error) {
	a := &agent{cfg: cfg, clock: clk, contact: contact.New(clk), registry: prometheus.NewRegistry(), logged: map[string]*loggedProblem{}}
	if err := a.open(ctx, once); err != nil {
		a.stop()
		return nil, err
	}
	return a, nil
}

func (a *agent) open(ctx context.Context, once bool) error {
	if err := a.cfg.prepare(); err != nil {
		return err
	}
	unlock, err := lock(a.cfg.lockFile())
	if err != nil {
		return err
	}
	a.closers = append(a.closers, unlock)
	if a.records, err = records.Open(a.cfg.recordsDir()); err != nil {
		return err
	}
	earlier, _ := status.Read(a.cfg.StatusFile()) // the file need not exist
	a.board = status.NewBoard(a.cfg.StatusFile(), earlier)
	a.board.Begin(a.cfg.NodeName, once)
	if a.metrics, err = podsync.NewMetrics(a.registry, a.board); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	a.observeUntilStopped(ctx)
	return nil
}

// join creates all parts that call the server, once the host has an identity. They do not
// start until they are run.
func (a *agent) join(ctx context.Context) error {
	id, err := identity.Open(ctx, identity.Config{
		Node: a.cfg.NodeName, Kubeconfig: a.cfg.Kubeconfig, BootstrapKubeconfig: a.cfg.BootstrapKubeconfig, Dir: a.cfg.identityDir(),
		Contact: a.contact, Clock: a.clock, Waits: a.board.Start,
	})
	if err != nil {
		return err
	}
	a.closers = append(a.closers, id.Stop)
	if err := a.connect(ctx, id.Config, podsync.Config{
		Root: a.cfg.VolumesDir, Records: a.records, Board: a.board, Actions: slices.Concat(a.cfg.AfterRefresh, hostcert.Actions(a.cfg.Certificates)),
		Metrics: a.metrics, Clock: a.clock, Jitter: backoff.Random,
	}); err != nil {
		return err
	}
	a.mu.Lock()
	a.identity = id
	a.mu.Unlock()
	a.board.Started()
	a.observe(ctx)
	return nil
}

// connect creates the parts that call the API.
func (a *agent) connect(ctx context.Context, config *rest.Config, cfg podsync.Config) error {
	config = rest.CopyConfig(config)
	config.QPS = -1 // the server's priority and fairness decides
	config.UserAgent = "certplane-agent"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	dynamic, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	// A server that accepts a heartbeat and does not answer it counts as away.
	config.Timeout = node.CallTimeout
	signs, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	a.closers = append(a.closers, broadcaster.Shutdown)
	a.node = node.New(a.cfg.NodeName, signs, clock.RealClock{})
	cfg.Node, cfg.Client, cfg.Discovery, cfg.Dynamic = a.node, client, client.Discovery(), dynamic
	cfg.Events = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "certplane-agent", Host: a.cfg.NodeName})
	a.keeper = podsync.New(ctx, cfg)
	return nil
}

// read passes the manifests and certificates to the keeper. As long as one of them is
// invalid, the status shows the error, and no files are removed.
func (a *agent) read() {
	pods, err := a.cfg.pods()
	a.keeper.Set(pods, err == nil)
	a.mu.Lock()
	a.wanted = pods
	a.mu.Unlock()
	a.board.Manifests(err)
}
