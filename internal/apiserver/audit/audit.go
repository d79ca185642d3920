// Package audit records which users sent which requests to the API.
package audit

import (
	"fmt"
	"io"
	"os"
	"time"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/plugin/pkg/audit/buffered"
	auditlog "k8s.io/apiserver/plugin/pkg/audit/log"
	auditwebhook "k8s.io/apiserver/plugin/pkg/audit/webhook"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/process/logfile"
)

// New returns the evaluator that decides which requests are recorded, and the
// backend that records them. Both are nil if cfg records nothing.
func New(cfg Config) (audit.PolicyRuleEvaluator, audit.Backend, error) {
	if err := cfg.Validate(); err != nil {
		return nil, nil, err
	}
	if !cfg.enabled() {
		return nil, nil, nil
	}
	rules, err := cfg.policy()
	if err != nil {
		return nil, nil, err
	}
	var backends []audit.Backend
	if cfg.Log.Path != "" {
		backend, err := newLog(cfg.Log)
		if err != nil {
			return nil, nil, err
		}
		backends = append(backends, backend)
	}
	if cfg.Webhook.Kubeconfig != "" {
		backend, err := newWebhook(cfg.Webhook)
		if err != nil {
			return nil, nil, err
		}
		backends = append(backends, stopWithTimeout{backend, stopTimeout})
	}
	return policy.NewPolicyRuleEvaluator(rules), audit.Union(backends...), nil
}

func newLog(cfg LogConfig) (audit.Backend, error) {
	out, err := open(cfg)
	if err != nil {
		return nil, fmt.Errorf("opening audit.log.path: %w", err)
	}
	backend := auditlog.NewBackend(out, cfg.Format, auditv1.SchemeGroupVersion)
	// A file takes events one by one as fast as in batches.
	return inMode(cfg.Mode, backend, buffered.BatchConfig{BufferSize: 10000, MaxBatchSize: 1}), nil
}

func open(cfg LogConfig) (io.Writer, error) {
	if cfg.Path == "-" {
		return os.Stdout, nil
	}
	return logfile.Open(logfile.Config{
		Path: cfg.Path, MaxSize: cfg.MaxSize, MaxBackups: cfg.MaxBackups, MaxAge: cfg.MaxAge, Compress: cfg.Compress,
	})
}

func newWebhook(cfg WebhookConfig) (audit.Backend, error) {
	backoff := webhook.DefaultRetryBackoffWithInitialDelay(cfg.InitialBackoff.Duration)
	backend, err := auditwebhook.NewBackend(cfg.Kubeconfig, auditv1.SchemeGroupVersion, backoff, nil)
	if err != nil {
		return nil, fmt.Errorf("using audit.webhook.kubeconfig: %w", err)
	}
	return inMode(cfg.Mode, backend, buffered.BatchConfig{
		BufferSize:     cfg.Batch.BufferSize,
		MaxBatchSize:   cfg.Batch.MaxSize,
		MaxBatchWait:   cfg.Batch.MaxWait.Duration,
		ThrottleEnable: true,
		ThrottleQPS:    float32(cfg.Batch.MaxRate),
		ThrottleBurst:  cfg.Batch.MaxRate + cfg.Batch.MaxRate/2,
		AsyncDelegate:  true,
	}), nil
}

func inMode(mode string, backend audit.Backend, batch buffered.BatchConfig) audit.Backend {
	switch mode {
	case options.ModeBatch:
		return buffered.NewBackend(backend, batch)
	case options.ModeBlockingStrict:
		return backend
	default:
		return lenient{backend}
	}
}

// lenient lets requests continue that cannot be recorded. The backend has
// already reported the error.
type lenient struct{ audit.Backend }

func (l lenient) ProcessEvents(events ...*auditinternal.Event) bool {
	l.Backend.ProcessEvents(events...)
	return true
}

// stopTimeout is how long a stopping server waits to send the remaining events
// to a webhook. The library's retries take longer than service managers wait.
const stopTimeout = 10 * time.Second

// stopWithTimeout limits how long a backend delays the end of the server.
type stopWithTimeout struct {
	audit.Backend
	timeout time.Duration
}

func (i stopWithTimeout) Shutdown() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		i.Backend.Shutdown()
	}()
	select {
	case <-done:
	case <-time.After(i.timeout):
		klog.Background().Info("The audit webhook has not accepted all events: the last ones are lost", "waited", i.timeout)
	}
}
