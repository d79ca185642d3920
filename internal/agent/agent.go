// Package agent is kubelet's part in the certificates of pods, on a host
// without a kubelet: it registers the host as a node and its manifests as pods,
// and keeps the files of their projected volumes fresh.
package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

	"github.com/certplane/certplane/internal/agent/credential"
	"github.com/certplane/certplane/internal/agent/identity"
	"github.com/certplane/certplane/internal/agent/keep"
	"github.com/certplane/certplane/internal/agent/manifests"
	"github.com/certplane/certplane/internal/agent/node"
	"github.com/certplane/certplane/internal/agent/records"
	"github.com/certplane/certplane/internal/agent/status"
)

// poll is how often the folder of manifests is read.
const poll = 2 * time.Second

// Run works until ctx ends. Each value of again makes it forget how long it
// wanted to wait after refusals. Volumes are kept by the time of clock.
func Run(ctx context.Context, cfg Config, clock clock.WithTicker, again <-chan struct{}) error {
	a, err := start(ctx, cfg, clock)
	if err != nil {
		return err
	}
	defer a.stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended, err := a.serve(ctx)
	if err != nil {
		return err
	}
	var group wait.Group
	defer group.Wait()
	defer cancel()
	group.StartWithContext(ctx, a.node.Run)
	group.StartWithContext(ctx, a.keeper.Run)
	group.StartWithContext(ctx, func(ctx context.Context) { wait.UntilWithContext(ctx, a.read, poll) })
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return err
		case <-again:
			a.read(ctx)
			a.keeper.Retry()
		}
	}
}

// Once returns when all files of all manifests are there. If ctx ends before,
// the error says what is missing.
func Once(ctx context.Context, cfg Config, clock clock.WithTicker) error {
	pods, err := manifests.Read(cfg.ManifestsDir)
	if err != nil {
		return err
	}
	a, err := start(ctx, cfg, clock)
	if err != nil {
		return err
	}
	defer a.stop()
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
	return errors.New("not all files are there:\n  " + strings.Join(missing(a.board.Host(), pods), "\n  "))
}

// missing says, for each pod without all of its files, what it lacks.
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
			all = append(all, pod.Key()+": there was no time to look at it")
		case !known.Ready():
			all = append(all, pod.Key()+": "+known.Missing())
		}
	}
	return all
}

// agent is a running agent.
type agent struct {
	cfg      Config
	board    *status.Board
	node     *node.Node
	keeper   *keep.Keeper
	registry *prometheus.Registry
	// reported is the last thing that was wrong with the manifests.
	reported string
	closers  []func()
}

func (a *agent) stop() {
	for i := len(a.closers) - 1; i >= 0; i-- {
		a.closers[i]()
	}
}

// start makes all parts. They work when they are run.
func start(ctx context.Context, cfg Config, clock clock.WithTicker) (*agent, error) {
	a := &agent{cfg: cfg, registry: prometheus.NewRegistry()}
	if err := a.start(ctx, clock); err != nil {
		a.stop()
		return nil, err
	}
	return a, nil
}

func (a *agent) start(ctx context.Context, clk clock.WithTicker) error {
	if err := a.cfg.prepare(); err != nil {
		return err
	}
	unlock, err := lock(a.cfg.lockFile())
	if err != nil {
		return err
	}
	a.closers = append(a.closers, unlock)
	store, err := records.Open(a.cfg.recordsDir())
	if err != nil {
		return err
	}
	a.board = status.NewBoard(a.cfg.StatusFile(), a.cfg.NodeName)
	metrics, err := keep.NewMetrics(a.registry, a.board)
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	id, err := identity.Open(ctx, identity.Config{
		Node: a.cfg.NodeName, Kubeconfig: a.cfg.Kubeconfig, BootstrapKubeconfig: a.cfg.BootstrapKubeconfig, Dir: a.cfg.identityDir(),
	})
	if err != nil {
		return err
	}
	a.closers = append(a.closers, id.Stop)
	return a.connect(ctx, id.Config, clk, keep.Config{
		Root: a.cfg.VolumesDir, Records: store, Board: a.board, Actions: a.cfg.AfterRefresh,
		Metrics: metrics, Clock: clk, Jitter: credential.Random,
	})
}

// connect makes the parts that talk to the API.
func (a *agent) connect(ctx context.Context, config *rest.Config, clk clock.WithTicker, cfg keep.Config) error {
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
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	a.closers = append(a.closers, broadcaster.Shutdown)
	a.node = node.New(a.cfg.NodeName, client, clock.RealClock{})
	cfg.Node, cfg.Client, cfg.Discovery, cfg.Dynamic = a.node, client, client.Discovery(), dynamic
	cfg.Events = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "certplane-agent", Host: a.cfg.NodeName})
	a.keeper = keep.New(ctx, cfg)
	return nil
}

// read hands the manifests to the keeper. What is wrong with them is logged
// once, and shown as long as it is so.
func (a *agent) read(ctx context.Context) {
	pods, err := manifests.Read(a.cfg.ManifestsDir)
	a.keeper.Set(pods, err == nil)
	logger := klog.FromContext(ctx)
	if errBoard := a.board.Manifests(err); errBoard != nil {
		logger.Error(errBoard, "The status cannot be told")
	}
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	if problem != "" && problem != a.reported {
		logger.Error(err, "A manifest is not used; nothing is removed as long as that is so")
	}
	a.reported = problem
}
