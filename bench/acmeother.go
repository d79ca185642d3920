package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// floodLoad is the work of the API that strangers must not slow down.
type floodLoad struct {
	// calls are made at a rate, each at its time.
	calls, perSecond int
}

// floodWorkers are how many calls there can be at a time.
const floodWorkers = 32

// floodResult is the work of the API while an ACME server of the same process is flooded,
// compared with the same work before.
type floodResult struct {
	Flood string `json:"flood"`
	// Sent is what strangers have sent in a second: requests, or connections.
	Sent float64 `json:"sentPerSecond"`
	// StrangersCPU is how much of a CPU they took.
	StrangersCPU float64     `json:"strangersCPUPercent"`
	Idle         roundResult `json:"idle"`
	With         roundResult `json:"with"`
}

// measureFloods measures how long calls of the API take while strangers flood the ACME
// server of the same process, each flood after a time without.
func measureFloods(ctx context.Context, opts options, to *results) (err error) {
	answers, err := startAnswers()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, answers.stop()) }()
	s, err := startACME(ctx, opts, answers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	of, err := url.Parse(s.server.NewNonce)
	if err != nil {
		return err
	}
	work, err := newOtherWork(s.admin)
	if err != nil {
		return err
	}
	if _, err := work.measure(ctx, s.system, opts.floods); err != nil { // the first calls are slower
		return err
	}
	for _, f := range floods {
		r := floodResult{Flood: f.name}
		if r.Idle, err = work.measure(ctx, s.system, opts.floods); err != nil {
			return err
		}
		end, err := f.begin(ctx, "https://"+of.Host)
		if err != nil {
			return err
		}
		if err := sleep(ctx, time.Second); err != nil { // until all are connected
			return err
		}
		began := time.Now()
		r.With, err = work.measure(ctx, s.system, opts.floods)
		took := time.Since(began) + time.Second
		sent, cpu, ended := end()
		if err := errors.Join(err, ended); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		r.Sent, r.StrangersCPU = float64(sent)/took.Seconds(), 100*cpu.Seconds()/took.Seconds()
		to.Floods = append(to.Floods, r)
		if err := sleep(ctx, opts.settle); err != nil {
			return err
		}
	}
	return nil
}

// otherWork creates, reads and deletes ConfigMaps.
type otherWork struct{ api kubernetes.Interface }

func newOtherWork(admin *rest.Config) (otherWork, error) {
	cfg := rest.CopyConfig(admin)
	cfg.QPS = -1
	api, err := kubernetes.NewForConfig(cfg)
	return otherWork{api}, err
}

func (w otherWork) call(ctx context.Context, name string) error {
	maps := w.api.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"a": "b"}}
	_, err := maps.Create(ctx, object, metav1.CreateOptions{})
	if err == nil {
		_, err = maps.Get(ctx, name, metav1.GetOptions{})
	}
	return errors.Join(err, maps.Delete(ctx, name, metav1.DeleteOptions{}))
}

// measure makes calls at their times. Each takes from the time at which it should have
// begun, so that a pause of the server counts for all calls that it delays.
func (w otherWork) measure(ctx context.Context, s *system, load floodLoad) (roundResult, error) {
	outcomes := make([]outcome, load.calls)
	used, err := s.measure(ctx, func() {
		began := time.Now()
		inParallel(ctx, floodWorkers, load.calls, func(i int) {
			due := began.Add(time.Duration(i) * time.Second / time.Duration(load.perSecond))
			if sleep(ctx, time.Until(due)) != nil {
				return
			}
			err := w.call(ctx, fmt.Sprintf("bench-%d-%d", began.UnixNano(), i))
			outcomes[i] = outcome{time.Since(due), err}
		})
	})
	return summarize(round{floodWorkers, load.calls}, outcomes, used), err
}

func writeFloods(out io.Writer, all []floodResult) error {
	if len(all) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "flood of the ACME server\tsent /s\tAPI calls\terrors\tidle p50 ms\tp99 ms\tflooded p50 ms\tp99 ms\tp99, of idle\tserver CPU %\tidle\tstrangers' CPU %\tMB\t")
	for _, r := range all {
		fmt.Fprintf(table, "%s\t%.0f\t%d\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.2f\t%.0f\t%.0f\t%.0f\t%.0f\t\n", r.Flood, r.Sent, r.With.Certificates, r.With.Errors,
			r.Idle.P50Milliseconds, r.Idle.P99Milliseconds, r.With.P50Milliseconds, r.With.P99Milliseconds, r.ratio(), r.With.percentCPU(), r.Idle.percentCPU(), r.StrangersCPU, r.With.MemoryMB)
	}
	return table.Flush()
}

// percentCPU returns how much of a CPU the server has used.
func (r roundResult) percentCPU() float64 {
	return r.ServerCPUMilliseconds * float64(r.Certificates) / r.Seconds / 10
}

func (r floodResult) ratio() float64 { return r.With.P99Milliseconds / r.Idle.P99Milliseconds }

func floodGoals(all []floodResult) []goal {
	var goals []goal
	for _, r := range all {
		goals = append(goals, goal{What: "p99 of the API, ACME flood: " + r.Flood, Unit: "of idle", Is: r.ratio(), Limit: 2})
	}
	return goals
}
